// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/site/provenance.h"
#include "launcher/site/site_document.h"

namespace hvd {

/// One value of a site, and where it comes from.
struct SiteValue {
  std::string place;  ///< "partitions/gpu_p13/max_time"
  std::string value;
  Provenance provenance;
};

/// Every value of a document that passed the checks, in the order of its fields. What only names or
/// explains (id, name, aliases, why, notes) is not a value.
std::vector<SiteValue> site_values(const Json& document);

/// How far the values can be trusted.
struct MarkCounts {
  int documented = 0;
  int seen = 0;
  int assumed = 0;
};

MarkCounts count_marks(const std::vector<SiteValue>& values);

}  // namespace hvd
