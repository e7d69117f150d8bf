// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hvd {

enum class JobAction {
  kHeader,  ///< Print the #SBATCH lines.
  kScript,  ///< Print the whole script.
  kSubmit,  ///< Write it to a launch directory and give it to sbatch.
};

/// One option of sbatch that hvdrun hands on as it is.
struct SbatchSetting {
  std::string name;   ///< "reservation"
  std::string value;  ///< Empty: none, a flag.
};

/// What the user typed after `hvdrun header`, `script` or `submit`. Initialised all over, so that
/// designated initialisers may name a few fields.
struct JobOptions {
  std::string site = {};       ///< Site id or alias, or the path of a site file; empty: detected.
  std::string partition = {};  ///< Empty: the site's default.
  std::optional<int> gpus = {};
  std::optional<int> nodes = {};
  std::optional<int> gpus_per_node = {};    ///< Absent: all of a node, or an even split.
  std::optional<int> ntasks_per_node = {};  ///< Absent: one per GPU.
  std::optional<int> cpus_per_task = {};    ///< Absent: the task's share of the node.
  std::optional<int> ntasks = {};           ///< --ntasks: said by nodes and GPUs already.
  std::string gpu_type = {};                ///< "a100" of --gpus a100:4; empty: the site's.
  std::string constraint = {};
  std::string qos = {};       ///< Empty: the site's default.
  std::string output = {};    ///< File of the job's output; empty: sbatch's.
  std::string time = {};      ///< As sbatch takes it; empty: the site's default.
  std::string account = {};   ///< Empty: none.
  std::string name = {};      ///< Job name; empty: the program's.
  std::string mem = {};       ///< Memory of a node; empty: the site's.
  std::string switches = {};  ///< N or N@TIME.
  std::string array = {};
  std::string signal = {};  ///< As sbatch takes it; empty: the requeue shape's.
  bool exclusive = false;
  std::vector<SbatchSetting> sbatch = {};  ///< What has no field here.
  bool requeue = false;      ///< The script puts the job back into the queue before its time ends.
  bool interactive = false;  ///< The salloc line in place of a script.
  std::vector<std::string> modules = {};  ///< Loaded after the site's.
  std::string container = {};             ///< Image that the program runs in.
  std::string templates = {};   ///< Folder of templates; empty: the user's, then the embedded.
  std::string launch_dir = {};  ///< Empty: hvdrun-jobs/<name>-<date>-<n>.
  bool follow = false;
  bool parsable = false;
  bool dry_run = false;
  bool list = false;  ///< Print the known sites and their partitions instead.
  bool json = false;  ///< --list for programs.
  JobAction action = JobAction::kHeader;
  /// The program of the job; empty: header only.
  std::vector<std::string> command = {};
};

}  // namespace hvd
