// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/node/file_tree.h"
#include "launcher/node/node_topology.h"
#include "topology/cpu_set.h"

/// The parts of read_node(), each from the same tree.
namespace hvd {

/// The CPUs that a file lists in the kernel's form; none where it is missing or malformed.
CpuSet cpu_list(const FileTree& tree, std::string_view path);

/// Cores, in order of package, NUMA node and number, and the NUMA nodes that have CPUs.
void read_cpus(const FileTree& tree, NodeTopology& topology);

/// GPUs in PCI order. Returns each one's path in the device tree, links followed.
std::vector<std::string> read_gpus(const FileTree& tree, bool with_names, NodeTopology& topology);

/// Network interfaces and RDMA devices, joined. Returns each one's path in the device tree.
std::vector<std::string> read_nics(const FileTree& tree, NodeTopology& topology);

/// How far the devices at two paths are from each other; `same_numa` where their paths part at the
/// root.
PciDistance pci_distance(std::string_view path, std::string_view other, bool same_numa);

}  // namespace hvd
