// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "base/format.h"
#include "launcher/node/sysfs_parts.h"

namespace hvd {
namespace {

constexpr std::string_view kNet = "/sys/class/net";
constexpr std::string_view kRdma = "/sys/class/infiniband";
constexpr std::string_view kCxi = "/sys/class/cxi";

constexpr long long kEthernetType = 1;  // ARPHRD_ETHER
constexpr long long kInfinibandType = 32;

/// A port on its way to the list, with the path of its PCI device.
struct Port {
  NodeNic nic;
  std::string path;
};

double leading_rate(std::string_view text) {
  double value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool is_nic_bus_id(std::string_view name) {
  return name.size() >= 12 && name[name.size() - 2] == '.' && name.find(':') != name.npos;
}

/// Where the device is: its path, bus and NUMA node.
void place(const FileTree& tree, const std::string& device, Port& port) {
  port.path = tree.resolve(device);
  // Of "…/0000:00:03.0/virtio2" the PCI device is the folder above.
  const std::size_t slash = port.path.rfind('/');
  const bool is_pci = slash != std::string::npos && is_nic_bus_id(port.path.substr(slash + 1));
  if (!is_pci && slash != std::string::npos) {
    const std::string above = port.path.substr(0, slash);
    if (is_nic_bus_id(above.substr(above.rfind('/') + 1))) port.path = above;
  }
  const std::string name = port.path.substr(port.path.rfind('/') + 1);
  if (is_nic_bus_id(name)) port.nic.bus_id = name;
  if (port.nic.driver.empty()) port.nic.driver = tree.target_name(device + "/driver");
  port.nic.numa = static_cast<int>(tree.read_number(device + "/numa_node", -1));
}

std::vector<Port> rdma_ports(const FileTree& tree) {
  std::vector<Port> ports;
  for (const std::string& name : tree.list(kRdma)) {
    const std::string device = format_text("{}/{}", kRdma, name);
    for (const std::string& number : tree.list(device + "/ports")) {
      const std::string folder = format_text("{}/ports/{}", device, number);
      Port port;
      port.nic.device = name;
      port.nic.port = static_cast<int>(leading_rate(number));
      port.nic.link = tree.read(folder + "/link_layer");
      port.nic.gigabits = leading_rate(tree.read(folder + "/rate"));       // "200 Gb/sec (4X HDR)"
      port.nic.is_up = leading_rate(tree.read(folder + "/state")) == 4.0;  // "4: ACTIVE"
      place(tree, device + "/device", port);
      ports.push_back(std::move(port));
    }
  }
  for (const std::string& name : tree.list(kCxi)) {
    Port port;
    port.nic.device = name;
    place(tree, format_text("{}/{}/device", kCxi, name), port);
    ports.push_back(std::move(port));
  }
  return ports;
}

/// The interface that holds the address: a bond for its members.
std::string address_holder(const FileTree& tree, const std::string& interface) {
  const std::string master = tree.target_name(format_text("{}/{}/master", kNet, interface));
  return master.empty() ? interface : master;
}

/// Gives the interface to the RDMA port of the same PCI device; false: there is none.
bool join(const FileTree& tree, const std::string& name, const Port& interface,
          std::vector<Port>& ports) {
  const std::string folder = format_text("{}/{}", kNet, name);
  bool joined = false;
  for (Port& port : ports) {
    if (port.nic.device.empty() || port.path != interface.path || port.path.empty()) continue;
    const long long dev_port = tree.read_number(folder + "/dev_port", 0);
    const bool has_others = std::any_of(ports.begin(), ports.end(), [&](const Port& other) {
      return &other != &port && other.path == port.path;
    });
    if (has_others && port.nic.port != dev_port + 1) continue;
    joined = true;
    // A partition's interface (ib0.8001) comes after its parent.
    if (!port.nic.name.empty()) continue;
    port.nic.name = address_holder(tree, name);
    if (port.nic.gigabits <= 0) port.nic.gigabits = interface.nic.gigabits;
    if (port.nic.link.empty()) port.nic.is_up = interface.nic.is_up;  // CXI: no port folders.
  }
  return joined;
}

void add_interface(const FileTree& tree, const std::string& name, std::vector<Port>& ports) {
  const std::string folder = format_text("{}/{}", kNet, name);
  const long long type = tree.read_number(folder + "/type", kEthernetType);
  if (type != kEthernetType && type != kInfinibandType) return;  // loopback, tunnels
  Port interface;
  interface.nic.name = name;
  const std::string state = tree.read(folder + "/operstate");
  interface.nic.is_up = state == "up" || state == "unknown";
  const bool has_device = !tree.resolve(folder + "/device").empty();
  if (!has_device && !interface.nic.is_up) return;  // a bridge or dummy without use
  interface.nic.gigabits =
      std::max(0.0, static_cast<double>(tree.read_number(folder + "/speed", 0)) / 1000);
  if (has_device) place(tree, folder + "/device", interface);
  if (join(tree, name, interface, ports)) return;
  if (address_holder(tree, name) != name) return;  // The bond or bridge stands for it.
  ports.push_back(std::move(interface));
}

}  // namespace

std::vector<std::string> read_nics(const FileTree& tree, NodeTopology& topology) {
  std::vector<Port> ports = rdma_ports(tree);
  for (const std::string& name : tree.list(kNet)) add_interface(tree, name, ports);
  std::sort(ports.begin(), ports.end(), [](const Port& a, const Port& b) {
    if (a.nic.name != b.nic.name) return natural_less(a.nic.name, b.nic.name);
    if (a.nic.device != b.nic.device) return natural_less(a.nic.device, b.nic.device);
    return a.nic.port < b.nic.port;
  });
  std::vector<std::string> paths;
  for (Port& port : ports) {
    topology.nics.push_back(std::move(port.nic));
    paths.push_back(std::move(port.path));
  }
  return paths;
}

}  // namespace hvd
