// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "launcher/node/node_topology.h"

namespace hvd {

/// A folder with the files of /sys (and /proc) that a test writes; removed at the end.
class WrittenSysfs {
 public:
  WrittenSysfs();
  ~WrittenSysfs();
  WrittenSysfs(const WrittenSysfs&) = delete;
  WrittenSysfs& operator=(const WrittenSysfs&) = delete;

  /// What read_node() takes.
  std::string root() const { return root_.string(); }

  /// Writes one file; its folders appear with it.
  void file(const std::string& path, const std::string& text) const;
  /// Makes `path` a link to `target`, both below the root.
  void link(const std::string& path, const std::string& target) const;

  /// Writes CPUs and NUMA nodes as the kernel shows them.
  void cpus(const NodeTopology& topology) const;
  /// Writes a PCI device at `path` below /sys/devices with its driver.
  void pci(const std::string& path, const std::string& driver, int numa) const;
  /// Writes one NIC whose PCI device stands at `path`.
  void nic(const NodeNic& nic, const std::string& path) const;
  /// Writes the whole node, the devices at places that give the distances it states.
  void node(const NodeTopology& topology) const;

 private:
  std::filesystem::path root_;
};

}  // namespace hvd
