// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hvd {

/// What this machine has of that which variables name.
struct MachineFacts {
  std::vector<std::string> interfaces;     ///< Of /sys/class/net.
  std::vector<std::string> verbs_devices;  ///< Of /sys/class/infiniband.
  std::string nccl_version;                ///< "2.30.7"; empty: no libnccl was found.
};

/// Reads them below `root` ("" or the folder of a written tree).
MachineFacts read_machine_facts(const std::string& root);

}  // namespace hvd
