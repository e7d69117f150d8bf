// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hvd {

/// Where a value comes from. Site advice changes and contradicts itself, so no bare numbers.
struct Provenance {
  std::string source;  ///< Page or document.
  std::string date;    ///< YYYY-MM[-DD] of reading.
  std::string mark;    ///< "D" documented, "S" seen in public scripts, "A" assumed.
};

/// One variable that a site asks for.
struct SiteVariable {
  std::string name;
  std::string value;
  std::string when;  ///< "always", "nodes>1", "gpus>0", or "historical": kept as text, never set.
  std::string why;
  Provenance provenance;
};

struct SiteQos {
  std::string name;
  std::string max_time;         ///< As sbatch takes it; empty: the partition's.
  std::optional<int> max_gpus;  ///< Per job.
  bool is_default = false;      ///< What Slurm takes when no QoS is named.
};

enum class PartitionSelect {
  kImplicit,    ///< The cluster's default: no flag.
  kPartition,   ///< --partition=NAME
  kConstraint,  ///< --constraint=CONSTRAINT
};

/// One kind of node, and how a job asks for it.
struct SitePartition {
  std::string name;
  std::vector<std::string> aliases;
  PartitionSelect select = PartitionSelect::kImplicit;
  std::string constraint;
  std::string gpu_model;
  int gpus_per_node = 0;
  int cores_per_task = 0;
  std::optional<int> max_nodes;
  std::string max_time;
  std::vector<SiteQos> qos;
  std::string account_suffix;  ///< "@v100": appended to an account that has none.
  std::vector<std::string> modules;
  Provenance provenance;
};

/// A line that the site wants in each header.
struct SiteDirective {
  std::string option;
  std::string value;  ///< Empty: a flag.
  std::string why;
};

struct SiteForbidden {
  std::string option;
  std::string why;
};

/// How hvdrun knows that it runs there; each empty field matches nothing.
struct SiteDetect {
  std::vector<std::string> cluster_names;  ///< SLURM_CLUSTER_NAME
  std::vector<std::string> system_names;   ///< SYSTEMNAME
  std::string hostname;                    ///< POSIX extended regular expression.
};

enum class GresStyle {
  kGres,         ///< --gres=gpu:N
  kGpusPerNode,  ///< --gpus-per-node=N
  kNone,         ///< The GPUs come with the node.
};

/// A cluster as data: everything hvdrun knows about it. Read from one JSON file.
struct SiteConfig {
  std::string id;
  std::string name;
  std::vector<std::string> aliases;
  std::string retired;  ///< Empty: in service; else a sentence.
  SiteDetect detect;
  std::string shell = "/bin/bash";
  std::vector<SitePartition> partitions;  ///< The first is the default. Empty: anything goes.
  std::string account_pattern;            ///< POSIX extended regular expression; empty: any.
  std::string account_example;
  GresStyle gres_style = GresStyle::kGres;
  std::string time;  ///< Written when the user gives no --time; empty: none.
  std::vector<SiteDirective> directives;
  std::vector<std::string> srun_flags;
  std::vector<SiteVariable> env;
  std::vector<std::string> modules;
  std::vector<SiteForbidden> forbidden;
  std::string origin;  ///< "embedded", or the path of the file.
};

}  // namespace hvd
