// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/site/site.h"

namespace hvd {

/// What programs need on the fabric of that kind ("slingshot-11"), whatever the site: the entries
/// of site_configs/fabrics.json. Empty for a kind that needs nothing.
std::vector<SiteVariable> fabric_variables(std::string_view kind);

/// The kinds that site_configs/fabrics.json has.
std::vector<std::string> fabric_kinds();

/// Whether the embedded file is right, for the test that keeps it so.
Status check_fabrics();

}  // namespace hvd
