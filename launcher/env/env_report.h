// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"
#include "launcher/plan/environment_plan.h"
#include "launcher/site/condition.h"
#include "launcher/site/site.h"

namespace hvd {

/// A setting of ours that the user has set.
struct GivenSetting {
  const Setting* setting = nullptr;
  std::string value;
};

/// What `hvdrun env` knows, before it is put into words.
struct EnvReport {
  SiteConfig site;
  SiteFacts facts;
  bool is_elsewhere = false;               ///< The facts are the site's: it is not this machine.
  std::vector<PlannedVariable> variables;  ///< Without those that tell a rank who it is.
  std::vector<UnsetVariable> unset;
  std::vector<GivenSetting> given;
};

/// The variables of a plan that `hvdrun env` shows, by name. Values of passwords, tokens and keys
/// are marked as secrets. Pure.
std::vector<PlannedVariable> shown_variables(const EnvironmentPlan& plan);

/// The settings of base/settings.h that the environment has. Pure.
std::vector<GivenSetting> given_settings(const Environment& environment);

/// NAME=value, one a line.
std::string env_text(const EnvReport& report);

/// Each variable with value, origin, reason, source and date, and what it overrides; then what is
/// not set, and why; then the settings that the user has set, and their meaning.
std::string env_explained(const EnvReport& report);

/// `export NAME='value'` for a POSIX shell. What the user set is there already, and secrets stay as
/// they are.
std::string env_export(const EnvReport& report);

std::string env_json(const EnvReport& report);

}  // namespace hvd
