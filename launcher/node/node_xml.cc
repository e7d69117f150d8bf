// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <hwloc.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/text_file.h"
#include "launcher/node/read_node.h"

namespace hvd {
namespace {

using Topology =
    std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

CpuSet to_cpus(hwloc_const_bitmap_t set) {
  CpuSet cpus;
  if (set == nullptr || hwloc_bitmap_weight(set) < 0) return cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu >= 0; cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

std::string_view info(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

bool is_gpu_memory(hwloc_obj_t numa) {
  return (numa->subtype != nullptr && std::string_view(numa->subtype) == "GPUMemory") ||
         !info(numa, "PCIBusID").empty();
}

void add_numas(hwloc_topology_t from, NodeTopology& topology) {
  hwloc_obj_t numa = nullptr;
  while ((numa = hwloc_get_next_obj_by_type(from, HWLOC_OBJ_NUMANODE, numa)) != nullptr) {
    CpuSet cpus = to_cpus(numa->cpuset);
    if (cpus.empty() || is_gpu_memory(numa)) continue;
    topology.numas.push_back(
        {static_cast<int>(numa->os_index), std::move(cpus), numa->attr->numanode.local_memory});
  }
  std::sort(topology.numas.begin(), topology.numas.end(),
            [](const NodeNuma& a, const NodeNuma& b) { return a.id < b.id; });
}

/// The one NUMA node that the CPUs belong to; -1: several.
int numa_of(const NodeTopology& topology, const CpuSet& cpus) {
  int found = -1;
  for (const NodeNuma& numa : topology.numas) {
    if (!std::binary_search(numa.cpus.begin(), numa.cpus.end(), cpus.front())) continue;
    if (std::includes(numa.cpus.begin(), numa.cpus.end(), cpus.begin(), cpus.end())) {
      found = numa.id;
    }
  }
  return found;
}

void add_cores(hwloc_topology_t from, NodeTopology& topology) {
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(from, HWLOC_OBJ_CORE, object)) != nullptr) {
    NodeCore core;
    core.cpus = to_cpus(object->cpuset);
    if (core.cpus.empty()) continue;
    const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(from, HWLOC_OBJ_PACKAGE, object);
    if (package != nullptr) core.package = std::max(0, static_cast<int>(package->os_index));
    core.numa = std::max(0, numa_of(topology, {core.cpus.front()}));
    topology.cores.push_back(std::move(core));
  }
}

std::string bus_id_of(hwloc_obj_t object) {
  const PciAttributes& pci = object->attr->pcidev;
  return format_text("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

void add_gpu(hwloc_topology_t from, hwloc_obj_t object, NodeTopology& topology,
             std::vector<hwloc_obj_t>& gpus) {
  struct Maker {
    unsigned id;
    GpuVendor vendor;
  };
  constexpr std::array<Maker, 3> kMakers{
      {{0x10de, GpuVendor::kNvidia}, {0x1002, GpuVendor::kAmd}, {0x8086, GpuVendor::kIntel}}};
  constexpr std::array<unsigned, 4> kClasses{0x0300, 0x0302, 0x0380, 0x1200};
  const PciAttributes& pci = object->attr->pcidev;
  const auto* maker = std::find_if(kMakers.begin(), kMakers.end(),
                                   [&](const Maker& known) { return known.id == pci.vendor_id; });
  if (maker == kMakers.end() ||
      std::find(kClasses.begin(), kClasses.end(), pci.class_id) == kClasses.end()) {
    return;
  }
  // The display in the processor.
  if (maker->vendor == GpuVendor::kIntel && pci.domain == 0 && pci.bus == 0) return;
  NodeGpu gpu;
  gpu.bus_id = bus_id_of(object);
  gpu.vendor = maker->vendor;
  gpu.model = info(object, "PCIDevice");
  gpu.near_cpus = to_cpus(hwloc_get_non_io_ancestor_obj(from, object)->cpuset);
  if (!gpu.near_cpus.empty()) gpu.numa = numa_of(topology, gpu.near_cpus);
  topology.gpus.push_back(std::move(gpu));
  gpus.push_back(object);
}

/// The driver of a NIC: hwloc does not say it, but the chip has only one.
std::string_view driver_of(const PciAttributes& pci) {
  constexpr unsigned kMellanox = 0x15b3;
  constexpr unsigned kCray = 0x17db;
  constexpr unsigned kAmazon = 0x1d0f;
  constexpr unsigned kIntel = 0x8086;
  if (pci.vendor_id == kMellanox) return pci.device_id < 0x1011 ? "mlx4_core" : "mlx5_core";
  if (pci.vendor_id == kCray) return "cxi_ss1";
  if (pci.vendor_id == kAmazon) return pci.device_id >= 0xefa0 ? "efa" : "ena";
  if (pci.vendor_id == kIntel && (pci.device_id == 0x24f0 || pci.device_id == 0x24f1)) {
    return "hfi1";
  }
  return "";
}

void add_nic(hwloc_topology_t from, hwloc_obj_t object, NodeTopology& topology,
             std::vector<hwloc_obj_t>& nics) {
  NodeNic nic;
  for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE || child->name == nullptr) continue;
    if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && nic.name.empty()) {
      nic.name = child->name;
    }
    if (child->attr->osdev.type != HWLOC_OBJ_OSDEV_OPENFABRICS || !nic.device.empty()) continue;
    nic.device = child->name;
    // Only a port of InfiniBand has a local identifier.
    const std::string_view lid = info(child, "Port1LID");
    nic.link = lid.empty() || lid == "0x0" ? "Ethernet" : "InfiniBand";
    nic.is_up = info(child, "Port1State") != "1";
  }
  if (nic.name.empty() && nic.device.empty()) return;
  nic.bus_id = bus_id_of(object);
  nic.driver = driver_of(object->attr->pcidev);
  const CpuSet near = to_cpus(hwloc_get_non_io_ancestor_obj(from, object)->cpuset);
  if (!near.empty()) nic.numa = numa_of(topology, near);
  topology.nics.push_back(std::move(nic));
  nics.push_back(object);
}

/// Devices under one PCI bridge, under one host bridge, at one place of the machine, or neither.
PciDistance distance_of(hwloc_topology_t from, hwloc_obj_t gpu, hwloc_obj_t nic, bool same_numa) {
  const hwloc_obj_t common = hwloc_get_common_ancestor_obj(from, gpu, nic);
  if (common->type == HWLOC_OBJ_BRIDGE) {
    return common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI ? PciDistance::kSwitch
                                                                      : PciDistance::kHostBridge;
  }
  return same_numa ? PciDistance::kNuma : PciDistance::kSystem;
}

/// Sorts `items` and `objects` alike.
template <typename Item, typename Less>
void sort_with(std::vector<Item>& items, std::vector<hwloc_obj_t>& objects, Less less) {
  std::vector<std::pair<Item, hwloc_obj_t>> pairs;
  for (std::size_t i = 0; i < items.size(); ++i) {
    pairs.emplace_back(std::move(items[i]), objects[i]);
  }
  std::sort(pairs.begin(), pairs.end(),
            [&](const auto& a, const auto& b) { return less(a.first, b.first); });
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    items[i] = std::move(pairs[i].first);
    objects[i] = pairs[i].second;
  }
}

void add_devices(hwloc_topology_t from, NodeTopology& topology) {
  std::vector<hwloc_obj_t> gpus;
  std::vector<hwloc_obj_t> nics;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_pcidev(from, object)) != nullptr) {
    add_gpu(from, object, topology, gpus);
    add_nic(from, object, topology, nics);
  }
  sort_with(topology.gpus, gpus, [](const NodeGpu& a, const NodeGpu& b) {
    return std::pair(a.bus_id.size(), a.bus_id) < std::pair(b.bus_id.size(), b.bus_id);
  });
  sort_with(topology.nics, nics, [](const NodeNic& a, const NodeNic& b) {
    return a.name != b.name ? natural_less(a.name, b.name) : natural_less(a.device, b.device);
  });
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    topology.gpus[gpu].index = static_cast<int>(gpu);
    std::vector<PciDistance> row;
    for (std::size_t nic = 0; nic < nics.size(); ++nic) {
      const int numa = topology.gpus[gpu].numa;
      row.push_back(
          distance_of(from, gpus[gpu], nics[nic], numa >= 0 && numa == topology.nics[nic].numa));
    }
    topology.gpu_to_nic.push_back(std::move(row));
  }
}

std::optional<NodeTopology> parse_node(const std::string& xml) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return std::nullopt;
  const Topology owned(raw, &hwloc_topology_destroy);
  (void)hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_set_xmlbuffer(raw, xml.c_str(), static_cast<int>(xml.size() + 1)) != 0 ||
      hwloc_topology_load(raw) != 0) {
    return std::nullopt;
  }
  NodeTopology topology;
  add_numas(raw, topology);
  add_cores(raw, topology);
  add_devices(raw, topology);
  return topology;
}

/// hwloc trusts its XML and crashes where, say, an object has no complete_cpuset: a child tries
/// first. It says nothing, leaves no core file, and has ten seconds.
bool parses_in_child(const std::string& xml) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    for (const int crash : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGALRM})
      (void)::signal(crash, SIG_DFL);
    (void)::prctl(PR_SET_DUMPABLE, 0);
    (void)::alarm(10);
    const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) (void)::dup2(null, STDERR_FILENO);
    ::_exit(parse_node(xml).has_value() ? 0 : 1);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

Result<NodeTopology> read_node_xml(const std::string& path) {
  const std::optional<std::string> xml = read_text_file(path);
  if (!xml) {
    return error(Code::kInvalidArgument, "'{}' cannot be read, or is empty: check path and rights",
                 path);
  }
  std::optional<NodeTopology> topology;
  if (parses_in_child(*xml)) topology = parse_node(*xml);
  if (!topology) {
    return error(Code::kInvalidArgument,
                 "'{}' cannot be read as a node in hwloc's XML form: make it with `lstopo --of xml "
                 "FILE` on the node",
                 path);
  }
  topology->origin = path;
  return std::move(*topology);
}

}  // namespace hvd
