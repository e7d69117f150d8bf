// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/method.h"
#include "bootstrap/mpi_world.h"
#include "bootstrap/pmi2_client.h"
#include "topology/identity.h"

namespace hvd {
namespace {

Result<std::string> file_name(const Environment& environment) {
  const auto get = [&](std::string_view name, std::string_view fallback) {
    return environment.get(name).value_or(std::string(fallback));
  };
  return safe_file_name(format_text("{}.{}.{}.{}", get("SLURM_CLUSTER_NAME", "cluster"),
                                    get("SLURM_JOB_ID", get("SLURM_JOBID", "0")),
                                    get("SLURM_STEP_ID", get("SLURM_STEPID", "0")),
                                    get("SLURM_RESTART_COUNT", "0")));
}

}  // namespace

Result<MethodOffer> meet_by_slurm(const MethodInput& input) {
  const std::string launcher = launcher_of(input.identity);
  if (launcher != "Slurm step") {
    return decline(format_text("the ranks were started by {}, not by srun", launcher));
  }
  MethodOffer offer;
  // MPI in this process speaks PMI-2 over the same descriptor, which serves one client only.
  // A PMI_FD that srun --mpi=none passed on is a number of another step, not a descriptor.
  if (input.environment.has("PMI_FD") && is_started_by(input.identity, "PMI") && !mpi_is_loaded()) {
    HVD_TRY_ASSIGN(offer.rendezvous,
                   meet_by_pmi2(input.environment, input.identity.rank, input.deadline));
    offer.how = "slurm (PMI-2)";
    return offer;
  }
  auto folder = rendezvous_folder(input.environment);
  if (!folder.is_ok()) return decline(folder.status().message());
  HVD_TRY_ASSIGN(const std::string name, file_name(input.environment));
  HVD_TRY_ASSIGN(offer.rendezvous, meet_by_file(folder.value() + "/" + name, input.identity.rank,
                                                input.environment, input.deadline));
  offer.how = "slurm (rendezvous file)";
  return offer;
}

}  // namespace hvd
