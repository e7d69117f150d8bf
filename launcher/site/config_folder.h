// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/environment.h"

namespace hvd {

/// The folders of files for hvdrun (sites/, templates/, defaults.json), the strongest first: the
/// user's ($XDG_CONFIG_HOME/hvdrun, else ~/.config/hvdrun), then the system's (hvdrun in each of
/// $XDG_CONFIG_DIRS, else /etc/xdg/hvdrun; /etc/hvdrun). None need exist.
std::vector<std::string> config_folders(const Environment& environment);

}  // namespace hvd
