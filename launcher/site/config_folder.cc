// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/config_folder.h"

namespace hvd {

std::string config_folder(const Environment& environment) {
  const std::string config = environment.get("XDG_CONFIG_HOME").value_or("");
  if (!config.empty()) return config + "/hvdrun";
  const std::string home = environment.get("HOME").value_or("");
  return home.empty() ? "" : home + "/.config/hvdrun";
}

}  // namespace hvd
