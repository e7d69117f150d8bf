// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/site/site_index.h"
#include "launcher/site/site_values.h"

namespace hvd {

/// One known site, for the list.
struct SiteLine {
  SiteEntry entry;
  MarkCounts counts;
  bool is_here = false;
};

/// What `hvdrun sites` knows.
struct SitesReport {
  std::vector<SiteLine> sites;
  std::string here;      ///< Id of the site that this machine is.
  std::string evidence;  ///< In words.
};

std::string sites_text(const SitesReport& report);
std::string sites_json(const SitesReport& report);

/// One site with every value.
std::string site_text(const SiteLine& line, const std::vector<SiteValue>& values);

/// A site file: the whole document of a site, which can be read again as one.
std::string site_json(const Json& document);

}  // namespace hvd
