// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/result.h"

namespace hvd {

struct TemplateText {
  std::string name;    ///< "gpu.mustache"
  std::string origin;  ///< Its path, or "gpu.mustache of hvdrun".
  std::string text;
};

/// Templates that take the place of hvdrun's own; of one name the first counts.
struct TemplateFiles {
  std::vector<TemplateText> own;
};

/// Reads those of `typed` (--templates), then those of hvdrun/templates in the user's configuration
/// folder. A typed folder that does not exist, or that holds no template, is an error.
Result<TemplateFiles> read_templates(const std::string& typed, const Environment& environment);

/// The template of that name. Pure.
TemplateText template_named(const TemplateFiles& files, std::string_view name);

}  // namespace hvd
