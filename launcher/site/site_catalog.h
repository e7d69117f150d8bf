// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/site/site.h"
#include "launcher/site/site_document.h"
#include "launcher/site/site_index.h"

namespace hvd {

/// Gives `take` the whole document of every site that can be used, each id once (site_index says
/// which file is it). Returns a sentence for each file that is left out.
Result<std::vector<std::string>> visit_sites(
    const std::vector<SiteEntry>& entries,
    const std::function<void(const SiteEntry&, const Json&)>& take);

/// The same as sites. `warnings` gets the sentences.
Result<std::vector<SiteConfig>> all_sites(const Environment& environment,
                                          std::vector<std::string>& warnings);

/// The site of that id or alias, or of that file (a name with a slash, or ending in ".json").
/// Unknown: kInvalidArgument with the list of the known ones. Other files that cannot be used are
/// its warnings.
Result<SiteConfig> find_site(const std::string& name, const Environment& environment);

/// The site this machine belongs to, as claim_site finds it; "generic" when none claims it. Its
/// `found_by` says why.
Result<SiteConfig> detect_site(const Environment& environment, const std::string& hostname);

/// The entry that `name` says: an id or alias of `entries`, or a file.
Result<SiteEntry> choose_entry(const std::vector<SiteEntry>& entries, const std::string& name);

/// The whole document of an entry of `entries`: what it extends is in it. A user's file is checked;
/// the embedded ones were when hvdrun was built.
Result<Json> load_document(const std::vector<SiteEntry>& entries, const SiteEntry& entry);

}  // namespace hvd
