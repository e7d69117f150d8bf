// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>

#include "base/format.h"
#include "launcher/lint/known_variable.h"
#include "launcher/lint/variable_rules.h"

namespace hvd {
namespace {

constexpr std::string_view kNcclGuide = "NCCL user guide, Environment Variables, 2026-11";

bool is_set_to(const std::vector<SetVariable>& variables, std::string_view name,
               std::string_view value) {
  const SetVariable* variable = find_set(variables, name);
  return variable != nullptr && variable->value == std::string(value);
}

std::optional<int> number_of(const std::vector<SetVariable>& variables, std::string_view name) {
  const SetVariable* variable = find_set(variables, name);
  if (variable == nullptr || !variable->value) return std::nullopt;
  int number = 0;
  const char* end = variable->value->data() + variable->value->size();
  const auto parsed = std::from_chars(variable->value->data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

Finding conflict(const SetVariable& variable, std::string why, std::string fix) {
  return {.rule = "conflicting-variables",
          .line = variable.line,
          .variable = variable.name,
          .why = std::move(why),
          .fix = std::move(fix),
          .source = std::string(kNcclGuide)};
}

/// A setting that leaves another without effect.
struct Undoing {
  std::string_view name;
  std::string_view value;
  std::string_view undone;  ///< Ends in '_' where it is a beginning.
  std::string_view why;
};

constexpr std::array<Undoing, 6> kUndoing{{
    {"NCCL_IB_DISABLE", "1", "NCCL_IB_", "the InfiniBand transport is off"},
    {"NCCL_NET", "Socket", "NCCL_IB_", "NCCL uses sockets"},
    {"NCCL_NET", "Socket", "NCCL_NET_GDR_LEVEL", "sockets know no GPU Direct RDMA"},
    {"NCCL_NET", "Socket", "NCCL_NET_PLUGIN", "NCCL uses its own sockets, not the plugin"},
    {"NCCL_P2P_DISABLE", "1", "NCCL_P2P_LEVEL", "the transport is off at any distance"},
    {"NCCL_RAS_ENABLE", "0", "NCCL_RAS_ADDR", "RAS is off"},
}};

bool is_undone(const SetVariable& variable, const Undoing& by) {
  if (variable.name == by.name) return false;
  const bool fits =
      by.undone.ends_with('_') ? variable.name.starts_with(by.undone) : variable.name == by.undone;
  if (!fits) return false;
  // NCCL_IB_DISABLE=1 beside NCCL_NET=Socket says the same thing twice, and a name that nobody
  // reads has a finding of its own.
  if (variable.name == "NCCL_IB_DISABLE") return false;
  if (variable.name == "NCCL_NET_PLUGIN" && variable.value == "none") return false;
  const KnownVariable* known = find_variable(variable.name);
  return known != nullptr && known->removed.empty();
}

void add_undone(const std::vector<SetVariable>& variables, std::vector<Finding>& findings) {
  for (const SetVariable& variable : variables) {
    for (const Undoing& by : kUndoing) {
      if (!is_set_to(variables, by.name, by.value) || !is_undone(variable, by)) continue;
      findings.push_back(conflict(
          variable, format_text("without effect beside {}={}: {}", by.name, by.value, by.why),
          format_text("drop {}, or {}", variable.name, by.name)));
      break;
    }
  }
}

void add_crossed_limits(const std::vector<SetVariable>& variables, std::vector<Finding>& findings) {
  for (const auto& [low, high] : {std::pair("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
                                  std::pair("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")}) {
    const auto lowest = number_of(variables, low);
    const auto highest = number_of(variables, high);
    if (!lowest || !highest || *lowest <= *highest) continue;
    findings.push_back(conflict(*find_set(variables, low),
                                format_text("{}={} is above {}={}", low, *lowest, high, *highest),
                                "make the least no more than the most"));
  }
  const int threads = number_of(variables, "NCCL_SOCKET_NTHREADS").value_or(1);
  const int sockets = number_of(variables, "NCCL_NSOCKS_PERTHREAD").value_or(1);
  if (threads > 0 && sockets > 64 / threads) {
    const SetVariable* at = find_set(variables, "NCCL_NSOCKS_PERTHREAD");
    if (at == nullptr) at = find_set(variables, "NCCL_SOCKET_NTHREADS");
    findings.push_back(
        conflict(*at,
                 format_text("NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD is {} x {}, more than "
                             "the 64 that NCCL takes",
                             threads, sockets),
                 "lower one of them"));
  }
}

void add_missing_partners(const std::vector<SetVariable>& variables,
                          std::vector<Finding>& findings) {
  const SetVariable* subsystems = find_set(variables, "NCCL_DEBUG_SUBSYS");
  if (subsystems != nullptr && find_set(variables, "NCCL_DEBUG") == nullptr) {
    Finding finding = conflict(*subsystems,
                               "chooses from what NCCL_DEBUG=INFO prints, and "
                               "NCCL_DEBUG is not set",
                               "set NCCL_DEBUG=INFO, or drop it");
    finding.severity = Severity::kNote;
    findings.push_back(std::move(finding));
  }
  const SetVariable* mapping = find_set(variables, "MPICH_OFI_NIC_MAPPING");
  const SetVariable* policy = find_set(variables, "MPICH_OFI_NIC_POLICY");
  if (mapping != nullptr && (policy == nullptr || (policy->value && policy->value != "USER"))) {
    Finding finding = conflict(*mapping, "read only with MPICH_OFI_NIC_POLICY=USER",
                               "set MPICH_OFI_NIC_POLICY=USER, or drop it");
    finding.source = "HPE Cray MPICH manual as cited by public scripts, 2026-11";
    findings.push_back(std::move(finding));
  }
  if (is_set_to(variables, "PSM2_GPUDIRECT", "1") && !is_set_to(variables, "PSM2_CUDA", "1")) {
    Finding finding = conflict(*find_set(variables, "PSM2_GPUDIRECT"),
                               "without effect unless PSM2_CUDA=1 is set too",
                               "set PSM2_CUDA=1 before MPI_Init, or drop it");
    finding.source = "psm2-nccl README, 2021";
    findings.push_back(std::move(finding));
  }
  if (is_set_to(variables, "NCCL_GRAPH_STREAM_ORDERING", "0") &&
      is_set_to(variables, "NCCL_GRAPH_MIXING_SUPPORT", "1")) {
    findings.push_back(conflict(*find_set(variables, "NCCL_GRAPH_STREAM_ORDERING"),
                                "graphs cannot be mixed while their order is left to the program",
                                "set NCCL_GRAPH_MIXING_SUPPORT=0, or drop one of the two"));
  }
}

}  // namespace

std::vector<Finding> check_variable_conflicts(const std::vector<SetVariable>& variables) {
  std::vector<Finding> findings;
  add_undone(variables, findings);
  add_crossed_limits(variables, findings);
  add_missing_partners(variables, findings);
  return findings;
}

}  // namespace hvd
