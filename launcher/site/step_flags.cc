// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/step_flags.h"

#include <algorithm>
#include <cctype>

namespace hvd {
namespace {

/// The variable that srun reads for an option: see "input environment variables" of srun(1).
std::string variable_of(std::string_view option) {
  if (option == "--mpi") return "SLURM_MPI_TYPE";
  std::string name = "SLURM_";
  for (const char c : option.substr(2)) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

}  // namespace

std::vector<std::string> site_step_flags(const SiteConfig& site, int nodes, bool has_gpus) {
  std::vector<std::string> flags;
  if (!site.mpi_type.empty()) flags.push_back("--mpi=" + site.mpi_type);
  if (!site.gpu_bind.empty() && has_gpus) flags.push_back("--gpu-bind=" + site.gpu_bind);
  flags.insert(flags.end(), site.srun_flags.begin(), site.srun_flags.end());
  if (nodes > 1) {
    flags.insert(flags.end(), site.multi_node_srun_flags.begin(), site.multi_node_srun_flags.end());
  }
  return flags;
}

std::string_view flag_name(std::string_view word) { return word.substr(0, word.find('=')); }

std::vector<std::string> undecided_flags(const std::vector<std::string>& flags,
                                         const Environment& environment) {
  std::vector<std::string> left;
  bool takes = true;
  for (const std::string& word : flags) {
    if (word.starts_with("--") && word.size() > 2) {
      takes = environment.get(variable_of(flag_name(word))).value_or("").empty();
    } else if (word.starts_with("-")) {
      takes = true;
    }
    if (takes) left.push_back(word);
  }
  return left;
}

}  // namespace hvd
