// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/result.h"

namespace hvd {

/// Where templates are looked for: these folders in order, file by file, then inside hvdrun.
struct TemplateFolders {
  std::vector<std::string> folders;
};

/// `typed` (--templates), then hvdrun/templates in the user's configuration folder where there is
/// one. A typed folder that does not exist, or that holds no template, is an error.
Result<TemplateFolders> find_templates(const std::string& typed, const Environment& environment);

struct TemplateText {
  std::string origin;  ///< Its path, or "gpu.mustache of hvdrun".
  std::string text;
};

/// The template of that name: "gpu.mustache".
Result<TemplateText> read_template(const TemplateFolders& where, std::string_view name);

}  // namespace hvd
