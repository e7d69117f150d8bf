// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/bind_options.h"

namespace hvd {

/// `-x NAME` (hand on the user's value) or `-x NAME=value`.
struct VariableOption {
  std::string name;
  std::optional<std::string> value;
};

enum class GpuVisibility {
  kAll,  ///< Every rank sees all GPUs of its node: peers reach each other's memory.
  kOne,  ///< Each rank sees its own alone.
};

/// What the user typed after `hvdrun` or `hvdrun run`.
struct RunOptions {
  std::optional<int> ranks;                         ///< -np
  std::optional<int> nodes;                         ///< --nodes
  int spares = 0;                                   ///< --spares
  std::optional<int> min_ranks;                     ///< --min-np
  std::optional<int> max_ranks;                     ///< --max-np
  std::string host_discovery;                       ///< --host-discovery-script; empty: none.
  int slots_per_host = 1;                           ///< --slots-per-host
  int restarts = 0;                                 ///< --restarts
  std::chrono::milliseconds loss_timeout{120'000};  ///< --loss-timeout
  bool nested = false;                              ///< --nested: -np inside a rank is meant.
  std::optional<int> cpus_per_rank;                 ///< -c
  BindOptions bind;
  GpuVisibility gpu_visibility = GpuVisibility::kAll;
  std::vector<VariableOption> variables;
  std::string site;     ///< Empty: detected.
  bool assume = false;  ///< Set variables whose values are assumed, too.
  std::string output_dir;
  std::optional<bool> prefix;  ///< Absent: prefix unless there is one rank.
  std::optional<bool> fold;    ///< Absent: on terminals.
  bool timestamp = false;
  bool detach = false;  ///< --detach: the job goes on in the background.
  bool dry_run = false;
  bool json = false;  ///< --json: what --dry-run prints, for programs.
  bool verbose = false;
  std::chrono::milliseconds grace{10'000};
  std::vector<std::string> command;  ///< The program and its arguments.
};

}  // namespace hvd
