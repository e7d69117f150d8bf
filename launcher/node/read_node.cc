// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/read_node.h"

#include "launcher/node/sysfs_parts.h"

namespace hvd {

NodeTopology read_node(const std::string& root, const NodeParts& parts) {
  const FileTree tree(root);
  NodeTopology topology;
  topology.origin = root.empty() ? "this machine" : root;
  read_cpus(tree, topology);
  std::vector<std::string> gpu_paths;
  if (parts.gpus) gpu_paths = read_gpus(tree, parts.gpu_names, topology);
  if (!parts.nics) return topology;
  const std::vector<std::string> nic_paths = read_nics(tree, topology);
  for (std::size_t gpu = 0; gpu < gpu_paths.size(); ++gpu) {
    std::vector<PciDistance> row;
    for (std::size_t nic = 0; nic < nic_paths.size(); ++nic) {
      const int numa = topology.gpus[gpu].numa;
      const bool same_numa = numa >= 0 && numa == topology.nics[nic].numa;
      row.push_back(pci_distance(gpu_paths[gpu], nic_paths[nic], same_numa));
    }
    topology.gpu_to_nic.push_back(std::move(row));
  }
  return topology;
}

}  // namespace hvd
