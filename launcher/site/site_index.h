// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/site/site.h"

namespace hvd {

/// A known site, and no more of it than finds it: the rest of its file is read when it is chosen.
struct SiteEntry {
  std::string id;
  std::string name;
  std::vector<std::string> aliases;
  std::string retired;  ///< Empty: in service.
  std::string extends;  ///< Id of another; empty: none.
  SiteDetect detect;
  std::string origin;  ///< "embedded", or the path of the file.
  std::string text;    ///< Of a user's file.
  /// Why the file cannot be used; then `id` is its name, or empty where it is a folder.
  std::string problem;
  std::string embedded_file;  ///< Of an embedded site.
};

/// All sites, in order of precedence: the files in the folders of HVD_SITE_PATH (separated by
/// colons), in sites/ of the user's and the system's folders (config_folders), then the embedded
/// ones. A file or folder that cannot be used is an entry with a problem: it stops those alone who
/// name it.
Result<std::vector<SiteEntry>> site_index(const Environment& environment);

/// Sentences on the files that cannot be used: which, why, and what to do.
std::vector<std::string> site_warnings(const std::vector<SiteEntry>& entries);

/// "warning: FILE is left out: ..." with a hint; `problem` names the file.
std::string left_out_warning(const std::string& problem);

/// The entry of a site file.
Result<SiteEntry> site_entry(const std::string& path);

/// The entry of that id, else of that alias; null: none. A name may come twice: the first is it.
const SiteEntry* find_entry(const std::vector<SiteEntry>& entries, std::string_view name);

/// The ids of those that can be used, for messages.
std::string known_ids(const std::vector<SiteEntry>& entries);

}  // namespace hvd
