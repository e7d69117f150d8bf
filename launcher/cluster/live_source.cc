// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/live_source.h"

#include "base/format.h"
#include "launcher/cluster/library_text.h"
#include "launcher/run/program_path.h"
#include "launcher/site/slurm_conf.h"

namespace hvd {

SlurmFacts read_slurm_facts(const Environment& environment) {
  SlurmFacts facts;
  facts.conf = slurm_conf_path(environment);
  facts.has_scontrol = std::holds_alternative<std::string>(find_program("scontrol", environment));
  facts.library = slurm_library_name();
  if (!facts.conf.empty()) facts.library_problem = slurm_library_problem();
  return facts;
}

LiveSource choose_live_source(const SlurmFacts& facts) {
  const std::string problem =
      facts.conf.empty() ? "there is no slurm.conf, which libslurm needs" : facts.library_problem;
  if (problem.empty()) {
    return {LiveWay::kLibrary,
            format_text("{}, the release that hvdrun was compiled for", facts.library)};
  }
  if (facts.has_scontrol) return {LiveWay::kCommands, format_text("scontrol ({})", problem)};
  if (facts.conf.empty()) {
    return {LiveWay::kNone, "no slurm.conf and no scontrol here: this is not a machine of Slurm"};
  }
  return {LiveWay::kNone, format_text("{} is here, but no scontrol in PATH ({})", facts.conf,
                                      facts.library_problem)};
}

}  // namespace hvd
