// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "launcher/site/site.h"

namespace hvd {

/// Reads the text of a site file: JSON, checked against the schema. Errors name `origin` and the
/// line and column of bad syntax, or the JSON pointer and the fields of a wrong value.
Result<SiteConfig> parse_site(std::string_view text, const std::string& origin);

}  // namespace hvd
