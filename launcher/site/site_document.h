// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

/// Site files as JSON documents: what happens before they become a SiteConfig. JSON is slow to
/// compile: few include this.
namespace hvd {

using Json = nlohmann::json;

/// Reads JSON. Errors name `origin`, line and column.
Result<Json> parse_json(std::string_view text, const std::string& origin);

/// `derived` with everything that it does not say taken from `base`, the document that it extends.
/// Lists of things with a name are joined by name, other lists are replaced. What hvdrun recognises
/// a site by (id, aliases, detect, retired) stays each site's own, unless the ids are the same.
/// Each value keeps the provenance that its own file gives it. Both documents match the schema.
Json extend_document(const Json& base, const Json& derived);

}  // namespace hvd
