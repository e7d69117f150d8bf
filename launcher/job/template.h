// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/job/job_plan.h"
#include "launcher/job/template_files.h"

namespace hvd {

/// The header alone, as sbatch takes it. Pure.
Result<std::string> render_header(const JobPlan& plan, const TemplateFiles& templates = {});

/// The whole script, in the plan's shape. Pure.
Result<std::string> render_script(const JobPlan& plan, const TemplateFiles& templates = {});

}  // namespace hvd
