// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hvd {

/// What the user typed after `hvdrun header`. Initialised all over, so that designated
/// initialisers may name a few fields.
struct HeaderOptions {
  std::string site = {};       ///< Site id or alias, or the path of a site file.
  std::string partition = {};  ///< Empty: the site's default.
  std::optional<int> gpus = {};
  std::optional<int> nodes = {};
  std::optional<int> cpus_per_task = {};  ///< Absent: the partition's cores per task.
  std::string constraint = {};
  std::string qos = {};      ///< Empty: the site's default.
  std::string output = {};   ///< File of the job's output; empty: sbatch's.
  std::string time = {};     ///< As sbatch takes it; empty: the site's default.
  std::string account = {};  ///< Empty: none.
  std::string name = {};     ///< Job name; empty: the program's.
  bool list = false;         ///< Print the known sites and their partitions instead.
  /// The program of the job; empty: header only.
  std::vector<std::string> command = {};
};

}  // namespace hvd
