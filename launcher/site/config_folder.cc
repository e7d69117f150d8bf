// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/config_folder.h"

#include <algorithm>

#include "launcher/console/words.h"

namespace hvd {

std::vector<std::string> config_folders(const Environment& environment) {
  std::vector<std::string> folders;
  const auto add = [&folders](const std::string& folder) {
    if (folder.front() != '/') return;  // XDG: a relative path is invalid, and ignored
    if (std::find(folders.begin(), folders.end(), folder) != folders.end()) return;
    folders.push_back(folder);
  };
  const std::string config = environment.get("XDG_CONFIG_HOME").value_or("");
  const std::string home = environment.get("HOME").value_or("");
  if (!config.empty()) {
    add(config + "/hvdrun");
  } else if (!home.empty()) {
    add(home + "/.config/hvdrun");
  }
  const std::string dirs = environment.get("XDG_CONFIG_DIRS").value_or("");
  for (const std::string& folder : split(dirs.empty() ? "/etc/xdg" : dirs, ':')) {
    add(folder + "/hvdrun");
  }
  add("/etc/hvdrun");
  return folders;
}

}  // namespace hvd
