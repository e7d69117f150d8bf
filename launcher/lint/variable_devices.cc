// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/format.h"
#include "launcher/lint/variable_rules.h"
#include "launcher/lint/word_table.h"

namespace hvd {
namespace {

constexpr std::string_view kNcclDevicesGuide = "NCCL user guide, Environment Variables, 2026-11";

constexpr const char* kEnvironmentPage = "docs/reference/environment.md";

/// "^=a:1,b" as NCCL reads it.
struct DeviceFilter {
  bool excludes = false;
  bool is_exact = false;
  std::vector<std::string> names;  ///< Without ports.
};

DeviceFilter parse_filter(std::string_view text) {
  DeviceFilter filter;
  if (text.starts_with('^')) {
    filter.excludes = true;
    text.remove_prefix(1);
  }
  if (text.starts_with('=')) {
    filter.is_exact = true;
    text.remove_prefix(1);
  }
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view name = text.substr(0, std::min(text.find(':'), end));
    if (!name.empty()) filter.names.emplace_back(name);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return filter;
}

bool is_named(const DeviceFilter& filter, std::string_view device) {
  return std::any_of(filter.names.begin(), filter.names.end(), [&](const std::string& name) {
    return filter.is_exact ? device == name : device.starts_with(name);
  });
}

/// Whether anything of `devices` is left.
bool leaves_any(const DeviceFilter& filter, const std::vector<std::string>& devices) {
  return std::any_of(devices.begin(), devices.end(), [&](const std::string& device) {
    return is_named(filter, device) != filter.excludes;
  });
}

bool has_number_after(std::string_view name, std::string_view stem) {
  return name.starts_with(stem) && name.size() > stem.size() && name[stem.size()] >= '0' &&
         name[stem.size()] <= '9';
}

/// Names that the kernel and the vendors give network interfaces, and never ibverbs devices.
bool is_interface_name(std::string_view name) {
  constexpr std::array<std::string_view, 6> kStems{"ipogif", "hsn", "ib", "eth", "eno", "bond"};
  return name == "lo" || std::any_of(kStems.begin(), kStems.end(), [&](std::string_view stem) {
           return has_number_after(name, stem);
         });
}

/// Names of ibverbs devices that no network interface has.
bool is_verbs_name(std::string_view name) {
  constexpr std::array<std::string_view, 4> kStems{"mlx4_", "mlx5_", "hfi1_", "bnxt_re"};
  return std::any_of(kStems.begin(), kStems.end(),
                     [&](std::string_view stem) { return has_number_after(name, stem); });
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

Finding device_finding(const SetVariable& variable, std::string_view rule) {
  return {.rule = rule,
          .severity = Severity::kError,
          .line = variable.line,
          .variable = variable.name,
          .source = std::string(kNcclDevicesGuide)};
}

std::optional<Finding> check_hca(const SetVariable& variable, const MachineFacts* machine) {
  const DeviceFilter filter = parse_filter(*variable.value);
  const auto interface =
      std::find_if(filter.names.begin(), filter.names.end(), [&](const std::string& name) {
        if (machine == nullptr) return is_interface_name(name);
        const auto& verbs = machine->verbs_devices;
        const auto& nets = machine->interfaces;
        return std::find(verbs.begin(), verbs.end(), name) == verbs.end() &&
               (is_interface_name(name) || std::find(nets.begin(), nets.end(), name) != nets.end());
      });
  if (interface != filter.names.end() && !filter.excludes) {
    Finding finding = device_finding(variable, "wrong-device-kind");
    finding.why = format_text(
        "'{}' is a network interface, and NCCL_IB_HCA names ibverbs devices: "
        "it matches nothing, and NCCL falls back to sockets",
        *interface);
    finding.fix =
        format_text("say it openly: NCCL_NET=Socket and NCCL_SOCKET_IFNAME={}", *interface);
    if (variable.whole_at && filter.names.size() == 1) {
      finding.edit = Edit{variable.name_at->begin, variable.value_at->end,
                          format_text("NCCL_NET=Socket NCCL_SOCKET_IFNAME={}", *interface)};
    }
    return finding;
  }
  if (machine == nullptr || leaves_any(filter, machine->verbs_devices)) return std::nullopt;
  if (filter.excludes && machine->verbs_devices.empty()) return std::nullopt;
  Finding finding = device_finding(variable, "no-such-device");
  finding.why = format_text(
      "'{}' leaves no ibverbs device of this node (it has: {}), so NCCL falls "
      "back to sockets",
      *variable.value, listed(machine->verbs_devices));
  finding.fix = "name one that is there, or drop it";
  return finding;
}

std::optional<Finding> check_interface(const SetVariable& variable, const MachineFacts* machine) {
  DeviceFilter filter = parse_filter(*variable.value);
  const bool is_of_libhvd = variable.name.starts_with("HVD_");
  if (variable.name == "GLOO_SOCKET_IFNAME" || is_of_libhvd) filter.is_exact = true;
  const auto verbs = std::find_if(filter.names.begin(), filter.names.end(), is_verbs_name);
  if (verbs != filter.names.end() && !filter.excludes) {
    Finding finding = device_finding(variable, "wrong-device-kind");
    finding.why = format_text("'{}' is an ibverbs device, and {} names network interfaces", *verbs,
                              variable.name);
    finding.fix = is_of_libhvd ? "name the interface: ip -br link shows them"
                               : "name the interface (ip -br link shows them), or use NCCL_IB_HCA";
    if (is_of_libhvd) finding.source = kEnvironmentPage;
    return finding;
  }
  if (machine == nullptr || leaves_any(filter, machine->interfaces)) return std::nullopt;
  Finding finding = device_finding(variable, "no-such-interface");
  finding.why = format_text("'{}' leaves no interface of this node (it has: {})", *variable.value,
                            listed(machine->interfaces));
  finding.fix = "name one that is there, or drop it";
  if (is_of_libhvd) finding.source = kEnvironmentPage;
  return finding;
}

std::optional<Finding> check_ucx(const SetVariable& variable, const MachineFacts* machine) {
  if (machine == nullptr || *variable.value == "all") return std::nullopt;
  DeviceFilter filter = parse_filter(*variable.value);
  filter.is_exact = true;
  if (leaves_any(filter, machine->verbs_devices) || leaves_any(filter, machine->interfaces)) {
    return std::nullopt;
  }
  Finding finding = device_finding(variable, "no-such-device");
  finding.why =
      format_text("'{}' names no device of this node (ibverbs: {}; interfaces: {})",
                  *variable.value, listed(machine->verbs_devices), listed(machine->interfaces));
  finding.fix = "name one that is there, as DEVICE:PORT, or drop it";
  finding.source = "ucx_info -cf of UCX 1.13.1, 2026-11";
  return finding;
}

}  // namespace

std::vector<Finding> check_variable_devices(const std::vector<SetVariable>& variables,
                                            const MachineFacts* machine) {
  constexpr std::array<std::string_view, 4> kInterfaceVariables{
      "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "HVD_INTERFACE", "HVD_BOOTSTRAP_INTERFACE"};
  std::vector<Finding> findings;
  for (const SetVariable& variable : variables) {
    if (!variable.value || variable.value->empty()) continue;
    std::optional<Finding> finding;
    if (variable.name == "NCCL_IB_HCA") {
      finding = check_hca(variable, machine);
    } else if (is_listed(kInterfaceVariables, variable.name)) {
      finding = check_interface(variable, machine);
    } else if (variable.name == "UCX_NET_DEVICES") {
      finding = check_ucx(variable, machine);
    }
    if (finding) findings.push_back(*std::move(finding));
  }
  return findings;
}

}  // namespace hvd
