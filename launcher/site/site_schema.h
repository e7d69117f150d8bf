// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "launcher/site/site_document.h"

namespace hvd {

constexpr std::string_view kSiteSchema = "schema/site.schema.json";

/// Checks a document against an embedded schema (kSiteSchema). A document with
/// "extends" may leave out what the other one says. Errors name `origin`, the JSON pointer and what
/// belongs there.
Status validate_document(const Json& document, std::string_view schema_file,
                         const std::string& origin);

}  // namespace hvd
