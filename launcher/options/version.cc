// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/version.h"

#include "revision.h"

namespace hvd {

std::string version_text() { return HVD_VERSION " (revision " HVD_REVISION ")"; }

}  // namespace hvd
