// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/method.h"
#include "bootstrap/mpi_world.h"
#include "bootstrap/pmi2_meeting.h"
#include "topology/identity.h"

namespace hvd {

Result<MethodOffer> meet_by_slurm(const MethodInput& input) {
  const std::string launcher = launcher_of(input.identity);
  if (launcher != "Slurm step") {
    return decline(format_text("the ranks were started by {}, not by srun", launcher));
  }
  MethodOffer offer;
  // MPI in this process speaks PMI-2 over the same descriptor, which serves one client only.
  // A PMI_FD that srun --mpi=none passed on is a number of another step, not a descriptor.
  if (input.environment.has("PMI_FD") && is_started_by(input.identity, "PMI") && !mpi_is_loaded()) {
    HVD_TRY(meet_by_pmi2(input));
    HVD_TRY_ASSIGN(offer.rendezvous, meet_again(input.kept, input.deadline));
    offer.how = "slurm (PMI-2)";
    input.kept.how = offer.how;
    return offer;
  }
  return meet_by_named_file(input, "slurm (rendezvous file)");
}

}  // namespace hvd
