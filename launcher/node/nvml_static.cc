// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/nvml.h"

namespace hvd {

// A static hvdrun loads no libraries: what the driver's files do not say stays empty.
void add_nvml_names(const std::string& /*library*/, NodeTopology& /*topology*/) {}

std::optional<PeerAccess> ask_peer_access(const std::string& /*library*/,
                                          const NodeTopology& /*topology*/) {
  return std::nullopt;
}

}  // namespace hvd
