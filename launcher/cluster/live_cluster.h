// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cluster/job_status.h"

namespace hvd {

/// Nodes of one partition that are alike.
struct LiveNodes {
  int count = 0;
  int gpus = 0;          ///< Per node, of any type.
  std::string gpu_type;  ///< "v100"; empty: untyped, or several.
  int cores = 0;         ///< Per node, without those that Slurm keeps for itself.
  int threads_per_core = 1;
  long long memory_mb = 0;

  bool is_like(const LiveNodes& other) const;
};

struct LivePartition {
  std::string name;
  bool is_default = false;
  bool is_hidden = false;     ///< Not shown to all, and not drafted; jobs may name it.
  bool is_exclusive = false;  ///< A job gets whole nodes.
  std::string state;          ///< "UP", "DOWN", "DRAIN", "INACTIVE"
  /// Absent: no limit.
  std::optional<std::chrono::seconds> max_time;
  std::optional<std::chrono::seconds> default_time;
  std::optional<int> max_nodes;  ///< Per job.
  int min_nodes = 0;
  int nodes = 0;
  std::vector<std::string> allowed_qos;  ///< Empty: all but those denied.
  std::vector<std::string> denied_qos;
  std::string qos;               ///< Whose limits the partition has; empty: none.
  std::vector<LiveNodes> kinds;  ///< The most frequent first; empty: not asked.
};

/// Limits that are absent are not set.
struct LiveQos {
  std::string name;
  std::optional<std::chrono::seconds> max_time;
  std::optional<int> max_nodes;  ///< Per job.
  std::optional<int> max_gpus;   ///< Per job.
  std::optional<int> max_jobs;   ///< Of one user at a time.
  bool goes_first = false;       ///< As a job's, before that of the partition: OverPartQOS.
  /// The limit of the partition does not bind its jobs: PartitionTimeLimit, ...
  bool passes_max_time = false;
  bool passes_max_nodes = false;
  bool passes_min_nodes = false;
};

/// A cluster as it is at this moment, whoever was asked.
struct LiveCluster {
  std::string name;
  std::string version;        ///< Of Slurm: "22.05.8"
  bool has_accounts = false;  ///< A slurmdbd, and so QoS.
  std::vector<LivePartition> partitions;
  std::vector<LiveQos> qos;  ///< Empty: not asked, or none.
  std::vector<JobStatus> jobs;

  const LivePartition* find_partition(std::string_view name) const;
  /// The one of a job that names none; null: no partition is the default.
  const LivePartition* default_partition() const;
  const LiveQos* find_qos(std::string_view name) const;
  /// What binds each job of the partition, by its QoS and its own limits; absent: no limit.
  std::optional<std::chrono::seconds> max_time_of(const LivePartition& partition) const;
  std::optional<int> max_nodes_of(const LivePartition& partition) const;
};

/// Reads the lines that `scontrol --oneliner show config`, `partition`, `node` and `job` print, in
/// any order, and those of kQosFormat. libslurm prints the same. Lines that are something else are
/// left out. Pure.
LiveCluster parse_live_cluster(std::string_view slurm_text, std::string_view qos_text);

/// The columns of `sacctmgr --parsable2 show qos` that parse_live_cluster() reads.
inline constexpr std::string_view kQosFormat = "Name,MaxWall,MaxTRES,MaxJobsPU,Flags";

}  // namespace hvd
