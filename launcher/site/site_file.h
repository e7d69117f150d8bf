// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "launcher/site/site.h"
#include "launcher/site/site_document.h"

namespace hvd {

/// Reads the text of a site file that extends no other: JSON, checked against the schema and by
/// check_site. Errors name `origin` and the line and column of bad syntax, or the JSON pointer and
/// the fields of a wrong value.
Result<SiteConfig> parse_site(std::string_view text, const std::string& origin);

/// What the schema cannot say: sources that are in the provenance table, conditions and regular
/// expressions that can be read, one default QoS, cores and maps that agree with the GPUs.
/// The document, extended already, matches the schema.
Status check_site(const Json& document, const std::string& origin);

/// The site of a document that passed the checks.
SiteConfig site_of(const Json& document, const std::string& origin);

}  // namespace hvd
