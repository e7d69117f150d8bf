// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/site/provenance.h"

namespace hvd {

/// One variable that a site or fabric asks for.
struct SiteVariable {
  std::string name;
  std::string value;
  std::string when;  ///< A condition (condition.h), or "historical": kept as text, never set.
  std::string why;
  Provenance provenance;
};

struct SiteQos {
  std::string name;
  std::string max_time;                         ///< As sbatch takes it; empty: the partition's.
  std::optional<int> max_gpus;                  ///< Per job.
  bool is_default = false;                      ///< What Slurm takes when no QoS is named.
  std::optional<int> max_nodes = std::nullopt;  ///< Per job.
  std::optional<int> max_jobs = std::nullopt;   ///< Of one user at a time.
  std::optional<int> min_nodes = std::nullopt;  ///< Per job.
  std::optional<int> min_gpus = std::nullopt;   ///< Per job.
  bool shares_nodes = false;  ///< Its jobs get a part of a node where others get whole ones.
  Provenance provenance = {};
  std::vector<FieldProvenance> field_provenance = {};
};

enum class PartitionSelect {
  kImplicit,    ///< The cluster's default: no flag.
  kPartition,   ///< --partition=NAME
  kConstraint,  ///< --constraint=CONSTRAINT
};

/// A limit for jobs up to some size.
struct SiteTimeByNodes {
  int nodes = 0;
  std::string max_time;
};

/// A network port of a node and the GPUs near it.
struct SiteNic {
  std::string name;
  std::vector<int> near_gpus;  ///< By index in PCI bus order.
};

/// One kind of node, and how a job asks for it. Strings are empty where the site says nothing.
struct SitePartition {
  std::string name;
  std::vector<std::string> aliases;
  PartitionSelect select = PartitionSelect::kImplicit;
  std::string constraint;
  std::string gpu_model;
  std::string gpu_type;  ///< As Slurm calls it.
  std::optional<int> gpu_memory_gb;
  int gpus_per_node = 0;
  int cores_per_task = 0;
  std::optional<int> cores_per_node;  ///< Usable by a job.
  std::string cores_reserved;         ///< CPU list that the system keeps.
  std::optional<int> smt;             ///< Hardware threads per core.
  std::optional<int> numa;            ///< NUMA nodes per node.
  std::optional<int> memory_gb;
  bool exclusive = false;  ///< A job gets whole nodes.
  std::optional<int> max_nodes;
  std::string default_time;  ///< Of a job without --time.
  std::string max_time;
  std::vector<SiteTimeByNodes> max_time_by_nodes;  ///< Shorter ones of smaller jobs.
  std::vector<SiteQos> qos;
  std::string account_suffix;  ///< "@v100": appended to an account that has none.
  std::vector<std::string> modules;
  std::string fabric;       ///< For readers.
  std::string fabric_kind;  ///< "slingshot-11"; empty: not said.
  std::vector<SiteNic> nics;
  std::string bootstrap_if;          ///< Own or the site's.
  std::vector<std::string> cpu_map;  ///< CPU list near each GPU, by index in PCI bus order.
  Provenance provenance;
  std::vector<FieldProvenance> field_provenance;  ///< Of the fields from elsewhere.
};

/// A line that the site wants in each header.
struct SiteDirective {
  std::string option;
  std::string value;  ///< Empty: a flag.
  std::string why;
  Provenance provenance = {};
};

struct SiteForbidden {
  std::string option;
  std::string why;
  std::string value = {};                           ///< This value alone; empty: any.
  std::optional<std::int64_t> over = std::nullopt;  ///< Numbers above this alone.
  Provenance provenance = {};
};

/// How hvdrun knows that it runs there; each empty field matches nothing.
struct SiteDetect {
  struct Variable {
    std::string name;
    std::string value;
  };
  std::vector<Variable> variables;         ///< One that has its value suffices.
  std::vector<std::string> cluster_names;  ///< SLURM_CLUSTER_NAME
  std::vector<std::string> system_names;   ///< SYSTEMNAME
  std::string hostname;                    ///< POSIX extended regular expression.
  std::vector<std::string> domains;

  bool is_empty() const {
    return variables.empty() && cluster_names.empty() && system_names.empty() && hostname.empty() &&
           domains.empty();
  }
};

struct SiteScheduler {
  std::string kind = "slurm";     ///< "slurm", "flux", "pbs", "none"
  std::string version_min;        ///< Lowest version known there; empty: not said.
  bool psslurm = false;           ///< ParaStation's daemon in place of slurmd.
  std::string launcher = "srun";  ///< "srun", "ibrun", "flux", "pals", "mpirun"
};

enum class GresStyle {
  kGres,         ///< --gres=gpu:N
  kGpusPerNode,  ///< --gpus-per-node=N
  kGpus,         ///< --gpus=N of the whole job
  kNone,         ///< The GPUs come with the node.
};

struct SiteContainer {
  std::string runtime;  ///< "apptainer", "pyxis", ...; empty: not said.
  std::vector<std::string> flags;
  std::string module;
};

/// A measured bandwidth to compare with.
struct SiteReference {
  std::string name;  ///< "all_reduce_perf"
  int gpus = 0;
  int nodes = 0;
  std::int64_t bytes = 0;
  double busbw_gb_per_s = 0;
  Provenance provenance;
};

/// A cluster as data: everything hvdrun knows about it. Read from one JSON file, and from those
/// that it extends.
struct SiteConfig {
  std::string id;
  std::string name;
  std::vector<std::string> aliases;
  std::string retired;  ///< Empty: in service; else a sentence.
  SiteDetect detect;
  SiteScheduler scheduler;
  std::string shell = "/bin/bash";
  std::vector<SitePartition> partitions;  ///< The first is the default. Empty: anything goes.
  std::string account_flag = "account";   ///< sbatch option that names it.
  bool account_required = false;
  std::string account_pattern;  ///< POSIX extended regular expression; empty: any.
  std::string account_example;
  GresStyle gres_style = GresStyle::kGres;
  bool typed = false;    ///< Requests name the GPU type: "a100:4".
  std::string gpu_bind;  ///< Of srun; empty: not said.
  std::string hint;      ///< Value of --hint; empty: none.
  std::string time;      ///< Written when the user gives no --time; empty: none.
  bool time_required = false;
  std::vector<SiteDirective> directives;
  std::vector<std::string> srun_flags;
  std::vector<std::string> multi_node_srun_flags;  ///< On more than one node, beside srun_flags.
  std::string bootstrap_if;  ///< Interfaces over which processes find each other; empty: not said.
  std::string mpi_type;      ///< Of srun's --mpi; empty: not said.
  std::string mpi_module;
  SiteContainer container;
  std::vector<SiteVariable> env;
  std::vector<std::string> modules;
  bool module_purge = false;  ///< Scripts unload what is loaded before they load modules.
  std::vector<SiteForbidden> forbidden;
  std::optional<bool> internet_on_nodes;
  std::string scratch_local;
  std::string master_addr_suffix;
  std::vector<SiteReference> reference;
  std::vector<std::string> notes;
  Provenance provenance;  ///< Of the fields of the site itself.
  /// Of those from elsewhere; what lies in an object is named "account/pattern", "mpi/type".
  std::vector<FieldProvenance> field_provenance;
  std::string origin;                 ///< "embedded", or the path of the file.
  std::string found_by;               ///< In words: "--site x", "SLURM_CLUSTER_NAME=x", ...
  std::vector<std::string> warnings;  ///< Of other site files, that were left out.
};

}  // namespace hvd
