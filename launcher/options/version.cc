// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/version.h"

#include "revision.h"

namespace hvd {

std::string version_number() { return HVD_VERSION; }

std::string revision() { return HVD_REVISION; }

}  // namespace hvd
