// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/environment.h"

namespace hvd {

/// Where the user keeps files for hvdrun: $XDG_CONFIG_HOME/hvdrun, else ~/.config/hvdrun; empty:
/// there is no home. It need not exist.
std::string config_folder(const Environment& environment);

}  // namespace hvd
