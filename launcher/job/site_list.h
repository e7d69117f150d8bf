// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/environment.h"
#include "base/result.h"

namespace hvd {

/// What `--list` prints: each known site, or the one of that name, and its partitions, with the
/// source of their values.
Result<std::string> describe_sites(const Environment& environment, const std::string& site,
                                   bool as_json);

}  // namespace hvd
