// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// "0.2.0"
std::string version_number();

/// "0123456789ab"; "unknown" where no git repository was built.
std::string revision();

}  // namespace hvd
