// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcher/site/site_document.h"

namespace hvd {

constexpr std::string_view kSiteSchema = "schema/site.schema.json";

/// Everything in which a document differs from an embedded schema (kSiteSchema), with the JSON
/// pointer of each place and what belongs there: "at /id: ...". A document with "extends" may leave
/// out what the other one says.
std::vector<std::string> schema_errors(const Json& document, std::string_view schema_file);

/// All of `errors` in one status; none: ok. A single one stands in the line of `origin`.
Status document_status(std::vector<std::string> errors, const std::string& origin);

/// The two together.
Status validate_document(const Json& document, std::string_view schema_file,
                         const std::string& origin);

}  // namespace hvd
