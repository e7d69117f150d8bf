// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvd {

/// What the conditions of variables ask about. An absent one is unknown.
struct SiteFacts {
  int nodes = 1;
  int gpus_per_node = 0;
  std::optional<std::string> nccl = std::nullopt;    ///< "2.27.3": of the libnccl or librccl found.
  std::optional<bool> plugin_found = std::nullopt;   ///< A libfabric plugin of NCCL or RCCL.
  std::optional<bool> container = std::nullopt;      ///< hvdrun runs inside of one.
  std::optional<std::string> fabric = std::nullopt;  ///< "slingshot-11"
  std::optional<std::string> gpu_vendor = std::nullopt;  ///< "nvidia", "amd"
  std::optional<std::string> partition = std::nullopt;   ///< Of the job.
  /// srun's --network, as SLURM_NETWORK says it; srun tells its tasks nothing else of it.
  std::optional<std::string> step_network = std::nullopt;
  std::optional<bool> mixed_ports = std::nullopt;  ///< RDMA ports not of the fabric, or slower.
  std::vector<std::string> interfaces = {};        ///< Of the fabric, on this node.
  std::vector<std::string> devices = {};           ///< RDMA devices of the fabric.
};

enum class Fact {
  kAlways,
  kHistorical,  ///< Kept as text and explained, never set.
  kNodes,
  kGpus,
  kNccl,
  kPluginFound,
  kContainer,
  kFabric,
  kGpuVendor,
  kPartition,
  kMixedPorts,
  kStepNetwork,
};

/// One part of a condition: "nodes>1", "not container".
struct ConditionTerm {
  Fact fact = Fact::kAlways;
  bool is_negated = false;
  std::string comparison;  ///< ">", ">=", "<", "<=", "="; empty: the fact itself.
  std::string value;
  std::string text;  ///< As written.
};

/// Terms that must all hold.
using Condition = std::vector<ConditionTerm>;

/// Reads "nodes>1 and nccl>=2.27 and not container". Errors say what can be written.
Result<Condition> parse_condition(std::string_view text);

/// Whether a condition holds, and the term that decided.
struct Verdict {
  enum class Truth { kFalse, kTrue, kUnknown };
  Truth truth = Truth::kTrue;
  Fact fact = Fact::kAlways;  ///< The one that decided.
  std::string reason;         ///< "nodes>1: nodes is 1"; empty where it holds.
};

/// A false term decides; else an unknown one. Pure.
Verdict evaluate(const Condition& condition, const SiteFacts& facts);

}  // namespace hvd
