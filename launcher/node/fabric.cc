// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/fabric.h"
#include "launcher/console/words.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/format.h"

namespace hvd {
namespace {

bool is_numbered(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix) || text.size() == prefix.size()) return false;
  const std::string_view number = text.substr(prefix.size());
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_slingshot11(const NodeNic& nic) {
  return is_numbered(nic.device, "cxi") || nic.driver.starts_with("cxi");
}

bool is_aries(const NodeNic& nic) { return is_numbered(nic.name, "ipogif"); }

// Its ports call themselves InfiniBand, too: they speak verbs.
bool is_omni_path(const NodeNic& nic) {
  return nic.driver == "hfi1" || is_numbered(nic.device, "hfi1_");
}

bool is_efa(const NodeNic& nic) { return nic.driver == "efa"; }

bool is_infiniband(const NodeNic& nic) { return !nic.device.empty() && nic.link == "InfiniBand"; }

// Slingshot of the first generation: a ConnectX whose interface has Slingshot's name.
bool is_slingshot10(const NodeNic& nic) {
  return is_numbered(nic.name, "hsn") && nic.driver.starts_with("mlx5");
}

bool is_roce(const NodeNic& nic) { return !nic.device.empty() && nic.link == "Ethernet"; }

/// Interfaces of a machine's own virtual networks: no other node is behind them.
bool is_internal(const NodeNic& nic) {
  constexpr std::array<std::string_view, 6> kPrefixes{"docker", "virbr", "veth",
                                                      "br-",    "cni",   "podman"};
  return nic.name == "lo" ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return nic.name.starts_with(prefix); });
}

bool is_ethernet(const NodeNic& nic) { return !nic.name.empty() && !is_internal(nic); }

struct FabricRule {
  FabricKind kind;
  bool (*has)(const NodeNic&);
  std::string_view says;  ///< What its ports are, after their names.
};

/// In order: each kind's ports would also match one further down.
constexpr std::array<FabricRule, 8> kKinds{{
    {FabricKind::kSlingshot11, is_slingshot11, "Cassini (CXI) ports"},
    {FabricKind::kAries, is_aries, "IP interfaces over Aries"},
    {FabricKind::kOmniPath, is_omni_path, "ports of the hfi1 driver"},
    {FabricKind::kEfa, is_efa, "ports of the efa driver"},
    {FabricKind::kInfiniBand, is_infiniband, "ports with the link layer InfiniBand"},
    {FabricKind::kSlingshot10, is_slingshot10, "ConnectX ports with Slingshot's interface names"},
    {FabricKind::kRoce, is_roce, "RDMA ports with the link layer Ethernet"},
    {FabricKind::kEthernet, is_ethernet, "network interfaces without RDMA"},
}};

const std::string& label(const NodeNic& nic) { return nic.device.empty() ? nic.name : nic.device; }

void add_new(std::vector<std::string>& names, const std::string& name) {
  if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
    names.push_back(name);
  }
}

/// Why a port is not used where the fabric is `kind` and its fastest port has `gigabits`; empty:
/// it is used.
std::string reason_against(const NodeNic& nic, const FabricRule& kind, double gigabits) {
  if (!nic.is_up) return "the port is down";
  if (!kind.has(nic)) return is_internal(nic) ? "internal to the node" : "not of this fabric";
  if (nic.gigabits < gigabits) {
    return format_text("slower ({} Gb/s) than the fastest ({} Gb/s)", nic.gigabits, gigabits);
  }
  return {};
}

Fabric describe(const std::vector<NodeNic>& nics, const FabricRule& kind) {
  double gigabits = 0;
  for (const NodeNic& nic : nics) {
    if (nic.is_up && kind.has(nic)) gigabits = std::max(gigabits, nic.gigabits);
  }
  Fabric fabric;
  fabric.kind = kind.kind;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    const NodeNic& nic = nics[i];
    std::string against = reason_against(nic, kind, gigabits);
    if (!against.empty()) {
      fabric.unused.push_back({label(nic), std::move(against)});
      continue;
    }
    fabric.nics.push_back(static_cast<int>(i));
    add_new(fabric.devices, nic.device);
    add_new(fabric.interfaces, nic.name);
    add_new(names, label(nic));
  }
  fabric.evidence = format_text("{}: {}", joined(names, ", "), kind.says);
  if (gigabits > 0) fabric.evidence += format_text(", {} Gb/s each", gigabits);
  return fabric;
}

}  // namespace

std::string_view fabric_name(FabricKind kind) {
  switch (kind) {
    case FabricKind::kNone:
      return "none";
    case FabricKind::kEthernet:
      return "Ethernet";
    case FabricKind::kRoce:
      return "RoCE";
    case FabricKind::kInfiniBand:
      return "InfiniBand";
    case FabricKind::kOmniPath:
      return "Omni-Path";
    case FabricKind::kAries:
      return "Aries";
    case FabricKind::kSlingshot10:
      return "Slingshot 10";
    case FabricKind::kSlingshot11:
      return "Slingshot 11";
    case FabricKind::kEfa:
      return "EFA";
  }
  return "none";
}

Fabric detect_fabric(const std::vector<NodeNic>& nics) {
  for (const FabricRule& kind : kKinds) {
    if (std::any_of(nics.begin(), nics.end(),
                    [&](const NodeNic& nic) { return nic.is_up && kind.has(nic); })) {
      return describe(nics, kind);
    }
  }
  Fabric none;
  none.evidence = "no network interface of the node is up, except for internal ones";
  for (const NodeNic& nic : nics) {
    none.unused.push_back({label(nic), nic.is_up ? "internal to the node" : "the port is down"});
  }
  return none;
}

}  // namespace hvd
