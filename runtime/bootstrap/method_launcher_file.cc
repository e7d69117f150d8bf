// SPDX-License-Identifier: Apache-2.0
// Launchers that give every rank a number and the job a name, but no secret and no store of ours:
// the ranks meet by a rendezvous file of that name. The file's mode keeps the key a secret, which
// no port next to MASTER_PORT with a derived key could.
#include <unistd.h>

#include <array>

#include "bootstrap/local_host.h"
#include "bootstrap/method.h"

namespace hvd {
namespace {

/// The variables that name one job of a launcher; all but the first may be missing.
struct JobName {
  std::string_view launcher;
  std::string_view prefix;
  std::array<std::string_view, 4> variables;
};

constexpr std::array<JobName, 7> kJobNames{{
    {"Open MPI", "openmpi", {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "", ""}},
    {"Intel MPI", "intelmpi", {"I_MPI_HYDRA_UUID", "", "", ""}},
    {"torchrun",
     "torchrun",
     {"MASTER_PORT", "MASTER_ADDR", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {"RANK and WORLD_SIZE", "env", {"MASTER_PORT", "MASTER_ADDR", "", ""}},
    {"Flux", "flux", {"FLUX_JOB_ID", "FLUX_URI", "", ""}},
    {"PALS", "pals", {"PALS_APID", "", "", ""}},
    {"PMI", "pals", {"PALS_APID", "", "", ""}},
}};

Result<std::string> name_of(const JobName& job, const Environment& environment) {
  std::string name(job.prefix);
  for (const std::string_view variable : job.variables) {
    if (variable.empty()) continue;
    const auto value = environment.get(variable);
    if (!value && variable == job.variables.front()) {
      return error(Code::kUnsupported, "{} started the ranks, but {} is not set", job.launcher,
                   variable);
    }
    if (value) name += "." + value->substr(0, 60);
  }
  return safe_file_name(name);
}

/// MPICH's mpiexec names its job nowhere; on one host its proxy, our parent, does.
Result<std::string> name_of_mpich(const Identity& identity) {
  if (identity.local_size != identity.size) {
    return error(Code::kUnsupported,
                 "MPICH's mpiexec gives no name to a job over several hosts; use hvdrun or srun");
  }
  return safe_file_name(format_text("mpich.{}.{}", local_host_name(), ::getppid()));
}

Result<std::string> job_name(const MethodInput& input) {
  const std::string launcher = launcher_of(input.identity);
  if (launcher == "MPICH") return name_of_mpich(input.identity);
  for (const JobName& job : kJobNames) {
    if (job.launcher == launcher) return name_of(job, input.environment);
  }
  return error(Code::kUnsupported, "{} names no job for a rendezvous file", launcher);
}

}  // namespace

Result<MethodOffer> meet_by_launcher_file(const MethodInput& input) {
  const auto name = job_name(input);
  if (!name.is_ok()) return decline(name.status().message());
  const auto folder = rendezvous_folder(input.environment);
  if (!folder.is_ok()) return decline(folder.status().message());
  MethodOffer offer;
  HVD_TRY_ASSIGN(offer.rendezvous,
                 meet_by_file(folder.value() + "/" + name.value(), input.identity.rank,
                              input.environment, input.deadline));
  offer.how = format_text("{} (rendezvous file)", launcher_of(input.identity));
  return offer;
}

}  // namespace hvd
