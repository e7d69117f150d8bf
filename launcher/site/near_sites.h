// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/site/site_index.h"

namespace hvd {

/// The ids, sorted, of the sites that were probably meant by `typed`: a word of their id, alias or
/// name begins with it ("alps", "daint", "CSCS"), or an id or alias is a letter or two away. No
/// capitals count. Empty: none.
std::vector<std::string> near_sites(const std::vector<SiteEntry>& entries, std::string_view typed);

}  // namespace hvd
