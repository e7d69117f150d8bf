// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// "0.1.0 (revision 0123456789ab)"; the revision is "unknown" where no git repository was built.
std::string version_text();

}  // namespace hvd
