// SPDX-License-Identifier: Apache-2.0
#include "written_sysfs.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "base/format.h"
#include "topology/cpu_set.h"

namespace hvd {
namespace {

namespace fs = std::filesystem;

std::string pci_root(int bus) { return format_text("/sys/devices/pci{:04x}:00", bus); }

/// GPU g's switch: that of an earlier GPU which has the same NIC at its switch, else one of its
/// own, below an earlier GPU's host bridge where both are as near to a NIC as that.
std::string bridge_of(const NodeTopology& topology, std::size_t g,
                      const std::vector<std::string>& bridges) {
  std::string root = pci_root(static_cast<int>(g));
  for (std::size_t other = 0; other < g; ++other) {
    for (std::size_t n = 0; n < topology.nics.size(); ++n) {
      const PciDistance farther =
          std::max(topology.gpu_to_nic[g][n], topology.gpu_to_nic[other][n]);
      if (farther == PciDistance::kSwitch) return bridges[other];
      if (farther == PciDistance::kHostBridge) {
        root = bridges[other].substr(0, bridges[other].rfind('/'));
      }
    }
  }
  return format_text("{}/0000:00:{:02x}.0", root, g + 1);
}

}  // namespace

WrittenSysfs::WrittenSysfs() {
  // In memory where that is possible: a node is hundreds of files.
  const fs::path above = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
  std::string name = (above / "sysfs_of_a_test.XXXXXX").string();
  root_ = ::mkdtemp(name.data());
}

WrittenSysfs::~WrittenSysfs() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

void WrittenSysfs::file(const std::string& path, const std::string& text) const {
  const fs::path full = root_ / path.substr(1);
  if (!fs::is_directory(full.parent_path())) fs::create_directories(full.parent_path());
  std::ofstream(full) << text << "\n";
}

void WrittenSysfs::link(const std::string& path, const std::string& target) const {
  const fs::path full = root_ / path.substr(1);
  fs::create_directories(full.parent_path());
  fs::create_directories(root_ / target.substr(1));
  if (!fs::is_symlink(full)) fs::create_symlink(root_ / target.substr(1), full);
}

void WrittenSysfs::cpus(const NodeTopology& topology) const {
  CpuSet online;
  CpuSet nodes;
  std::map<int, CpuSet> packages;
  const auto sorted = [](CpuSet cpus) {
    std::sort(cpus.begin(), cpus.end());
    return format_cpu_set(cpus);
  };
  for (const NodeCore& core : topology.cores) {
    online.insert(online.end(), core.cpus.begin(), core.cpus.end());
    CpuSet& package = packages[core.package];
    package.insert(package.end(), core.cpus.begin(), core.cpus.end());
  }
  file("/sys/devices/system/cpu/online", sorted(online));
  // Of each core and package the first CPU's files alone: a tree of thousands takes seconds.
  const bool has_smt = std::any_of(topology.cores.begin(), topology.cores.end(),
                                   [](const NodeCore& core) { return core.cpus.size() > 1; });
  file("/sys/devices/system/cpu/smt/active", has_smt ? "1" : "0");
  for (const NodeCore& core : topology.cores) {
    const std::string folder =
        format_text("/sys/devices/system/cpu/cpu{}/topology", core.cpus.front());
    if (has_smt) file(folder + "/core_cpus_list", format_cpu_set(core.cpus));
    CpuSet& package = packages[core.package];
    if (package.front() != core.cpus.front()) continue;
    file(folder + "/package_cpus_list", sorted(package));
    file(folder + "/physical_package_id", std::to_string(core.package));
  }
  for (const NodeNuma& numa : topology.numas) {
    nodes.push_back(numa.id);
    const std::string folder = format_text("/sys/devices/system/node/node{}", numa.id);
    file(folder + "/cpulist", format_cpu_set(numa.cpus));
    file(folder + "/meminfo",
         format_text("Node {0} MemTotal:       {1} kB\nNode {0} MemFree:        1 kB", numa.id,
                     numa.memory_bytes / 1024));
  }
  file("/sys/devices/system/node/online", sorted(nodes));
}

void WrittenSysfs::pci(const std::string& path, const std::string& driver, int numa) const {
  file(path + "/numa_node", std::to_string(numa));
  link(path + "/driver", "/sys/bus/pci/drivers/" + driver);
  link("/sys/bus/pci/drivers/" + driver + path.substr(path.rfind('/')), path);
}

void WrittenSysfs::nic(const NodeNic& nic, const std::string& path) const {
  if (!path.empty()) pci(path, nic.driver, nic.numa);
  if (nic.device.starts_with("cxi")) {
    link(format_text("/sys/class/cxi/{}/device", nic.device), path);
  } else if (!nic.device.empty()) {
    const std::string folder = "/sys/class/infiniband/" + nic.device;
    link(folder + "/device", path);
    const std::string port = format_text("{}/ports/{}", folder, nic.port);
    file(port + "/link_layer", nic.link);
    file(port + "/rate", format_text("{} Gb/sec (4X HDR)", nic.gigabits));
    file(port + "/state", nic.is_up ? "4: ACTIVE" : "1: DOWN");
  }
  if (nic.name.empty()) return;
  const std::string folder = "/sys/class/net/" + nic.name;
  file(folder + "/type", nic.link == "InfiniBand" ? "32" : "1");
  file(folder + "/operstate", nic.is_up ? "up" : "down");
  file(folder + "/speed", format_text("{}", nic.gigabits * 1000));
  if (!path.empty()) link(folder + "/device", path);
}

// GPU g stands behind a switch of its own. A NIC goes to the nearest GPU's switch or host bridge,
// else to a host bridge of its own.
void WrittenSysfs::node(const NodeTopology& topology) const {
  cpus(topology);
  std::vector<std::string> bridges;
  for (std::size_t g = 0; g < topology.gpus.size(); ++g) {
    const NodeGpu& gpu = topology.gpus[g];
    bridges.push_back(bridge_of(topology, g, bridges));
    const std::string path = format_text("{}/{}", bridges[g], gpu.bus_id);
    constexpr const char* kDrivers[] = {"nvidia", "amdgpu", "xe"};
    pci(path, kDrivers[static_cast<int>(gpu.vendor)], gpu.numa);
    file(path + "/class", gpu.vendor == GpuVendor::kNvidia ? "0x030200" : "0x038000");
    if (!gpu.near_cpus.empty()) file(path + "/local_cpulist", format_cpu_set(gpu.near_cpus));
    if (gpu.vendor == GpuVendor::kNvidia) {
      file(format_text("/proc/driver/nvidia/gpus/{}/information", gpu.bus_id),
           format_text("Model: \t\t {}\nIRQ:   \t\t 16\nGPU UUID: \t {}", gpu.model,
                       gpu.uuid.empty() ? "GPU-\?\?\?\?\?\?\?\?-\?\?\?\?" : gpu.uuid));
    } else {
      file(path + "/product_name", gpu.model);
    }
  }
  for (std::size_t n = 0; n < topology.nics.size(); ++n) {
    const NodeNic& each = topology.nics[n];
    std::string above = pci_root(static_cast<int>(0x100 + n));
    for (std::size_t g = 0; g < bridges.size(); ++g) {
      if (topology.gpu_to_nic[g][n] == PciDistance::kSwitch) above = bridges[g];
    }
    for (std::size_t g = 0; g < bridges.size() && above.starts_with(pci_root(0x100 + n)); ++g) {
      if (topology.gpu_to_nic[g][n] == PciDistance::kHostBridge) {
        above = bridges[g].substr(0, bridges[g].rfind('/'));
      }
    }
    nic(each, each.bus_id.empty() ? "" : format_text("{}/{}", above, each.bus_id));
  }
}

}  // namespace hvd
