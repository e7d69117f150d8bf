// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/job/job_plan.h"
#include "launcher/options/job_options.h"
#include "launcher/site/site.h"

namespace hvd {

/// A job that fits its site, and the text of its header or script.
struct PreparedJob {
  SiteConfig site;
  JobPlan plan;
  std::string text;
};

/// Finds the site (typed, else the one that claims this machine), the defaults and the templates,
/// and decides.
Result<PreparedJob> prepare_job(const JobOptions& typed, const Environment& environment);

}  // namespace hvd
