// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/lint/sbatch_file.h"

namespace hvd {

/// What the header asks for, as numbers; absent: not said, or no number.
struct JobRequest {
  std::optional<int> nodes;  ///< The lowest of a range.
  std::optional<int> tasks;
  std::optional<int> tasks_per_node;
  std::optional<int> cpus_per_task;
  std::optional<int> gpus;           ///< --gpus: of the job.
  std::optional<int> gpus_per_node;  ///< --gres=gpu:N or --gpus-per-node.
  std::optional<int> gpus_per_task;
  std::optional<std::chrono::seconds> time;
  std::string partition;  ///< Empty: none named.
  std::string qos;
  std::string constraint;
  std::string account;

  /// Tasks of the job; absent: no number says it.
  std::optional<int> all_tasks() const;
  /// Nodes of the job; 1: no number says it.
  int node_count() const;
  /// Tasks on one node, from whichever of the numbers say it.
  std::optional<int> tasks_on_node() const;
  /// GPUs of one node, from whichever of the numbers say it.
  std::optional<int> gpus_on_node() const;
};

JobRequest job_request(const SbatchFile& file);

/// N of "gpu:N", "gpu:a100:N", "a100:N", "N" in a list of resources; absent: no GPU is in it.
std::optional<int> gpu_count(const std::string& text, bool is_gres);

/// A type name in such a list: "a100"; empty: untyped.
std::string gpu_type_of(const std::string& text, bool is_gres);

}  // namespace hvd
