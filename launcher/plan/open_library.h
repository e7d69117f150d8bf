// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// The library, left in place for good; nullptr: it is not there, or this hvdrun is static and
/// loads none.
void* open_library(const std::string& name);

}  // namespace hvd
