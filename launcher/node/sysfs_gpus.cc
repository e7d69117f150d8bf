// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"
#include "launcher/node/sysfs_parts.h"

namespace hvd {
namespace {

/// Asking the drivers for their devices is quicker than asking hundreds of devices for their class,
/// and a GPU with another driver (vfio-pci, nouveau) computes nothing.
constexpr std::string_view kDrivers = "/sys/bus/pci/drivers";

struct GpuDriver {
  std::string_view name;
  GpuVendor vendor;
};

constexpr std::array<GpuDriver, 4> kGpuDrivers{{
    {"nvidia", GpuVendor::kNvidia},
    {"amdgpu", GpuVendor::kAmd},
    {"i915", GpuVendor::kIntel},
    {"xe", GpuVendor::kIntel},
}};

/// "0000:07:00.0"; a driver's folder also holds "bind", "module", "new_id".
bool is_bus_id(std::string_view name) {
  return name.size() >= 12 && name[name.size() - 8] == ':' && name[name.size() - 5] == ':' &&
         name[name.size() - 2] == '.';
}

/// VGA, 3D and other display controllers, and processing accelerators: a GPU for computing may be
/// any of them (MI250X: 0x0380, MI300: 0x1200).
bool is_gpu_class(std::string_view pci_class) {
  constexpr std::array<std::string_view, 4> kClasses{"0x0300", "0x0302", "0x0380", "0x1200"};
  return std::any_of(kClasses.begin(), kClasses.end(),
                     [&](std::string_view known) { return pci_class.starts_with(known); });
}

bool is_gpu(const FileTree& tree, const GpuDriver& driver, std::string_view bus_id) {
  if (!is_bus_id(bus_id)) return false;
  // Intel's display in the processor sits on the root bus; its GPUs for computing never do.
  if (driver.vendor == GpuVendor::kIntel && bus_id.starts_with("0000:00:")) return false;
  return is_gpu_class(tree.read(format_text("{}/{}/{}/class", kDrivers, driver.name, bus_id)));
}

/// What follows "Model:" or "GPU UUID:" in NVIDIA's file about a GPU.
std::string field(std::string_view text, std::string_view label) {
  std::size_t at = text.find(label);
  if (at == std::string_view::npos) return {};
  at = text.find_first_not_of(" \t", at + label.size());
  if (at == std::string_view::npos) return {};
  return std::string(text.substr(at, text.find('\n', at) - at));
}

void read_names(const FileTree& tree, const std::string& device, NodeGpu& gpu) {
  if (gpu.vendor == GpuVendor::kAmd) gpu.model = tree.read(device + "/product_name");
  if (gpu.vendor != GpuVendor::kNvidia) return;
  const std::string about =
      tree.read(format_text("/proc/driver/nvidia/gpus/{}/information", gpu.bus_id));
  gpu.model = field(about, "Model:");
  gpu.uuid = field(about, "GPU UUID:");
  // A GPU that nobody uses and no daemon holds has no UUID yet: "GPU-????????-...".
  if (!gpu.uuid.starts_with("GPU-") || gpu.uuid.find('?') != std::string::npos) gpu.uuid.clear();
}

std::vector<std::string_view> parts_of(std::string_view path) {
  // ".../devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0": what follows "devices".
  constexpr std::string_view kDevices = "/sys/devices/";
  const std::size_t at = path.find(kDevices);
  std::vector<std::string_view> parts;
  if (at == std::string_view::npos) return parts;
  path.remove_prefix(at + kDevices.size());
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    parts.push_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

}  // namespace

std::vector<std::string> read_gpus(const FileTree& tree, bool with_names, NodeTopology& topology) {
  struct Found {
    std::string bus_id;
    const GpuDriver* driver;
  };
  std::vector<Found> found;
  for (const GpuDriver& driver : kGpuDrivers) {
    for (std::string& name : tree.list(format_text("{}/{}", kDrivers, driver.name))) {
      if (is_gpu(tree, driver, name)) found.push_back({std::move(name), &driver});
    }
  }
  // Hexadecimal numbers of one width; a domain above ffff makes the name longer.
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::pair(a.bus_id.size(), a.bus_id) < std::pair(b.bus_id.size(), b.bus_id);
  });
  std::vector<std::string> paths;
  for (Found& each : found) {
    const std::string device = format_text("{}/{}/{}", kDrivers, each.driver->name, each.bus_id);
    NodeGpu gpu;
    gpu.index = static_cast<int>(topology.gpus.size());
    gpu.bus_id = std::move(each.bus_id);
    gpu.vendor = each.driver->vendor;
    gpu.numa = static_cast<int>(tree.read_number(device + "/numa_node", -1));
    gpu.near_cpus = cpu_list(tree, device + "/local_cpulist");
    if (with_names) read_names(tree, device, gpu);
    topology.gpus.push_back(std::move(gpu));
    paths.push_back(tree.resolve(device));
  }
  return paths;
}

PciDistance pci_distance(std::string_view path, std::string_view other, bool same_numa) {
  const auto a = parts_of(path);
  const auto b = parts_of(other);
  const std::size_t shorter = std::min(a.size(), b.size());
  std::size_t shared = 0;
  while (shared < shorter && a[shared] == b[shared]) ++shared;
  if (shared >= 2) return PciDistance::kSwitch;
  if (shared == 1) return PciDistance::kHostBridge;
  return same_numa ? PciDistance::kNuma : PciDistance::kSystem;
}

}  // namespace hvd
