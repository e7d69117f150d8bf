// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/method.h"

#include <array>
#include <utility>

#include "bootstrap/job_name.h"
#include "bootstrap/local_host.h"
#include "transport/node_exchange.h"

namespace hvd {
namespace {

// PMIx is last: a process that becomes a PMIx client takes the whole Slurm step with it when it
// dies, and keeps MPI from being initialised later.
constexpr std::array<Method, 5> kMethods{{
    {"hvdrun", meet_by_hvdrun},
    {"mpi", meet_by_mpi},
    {"slurm", meet_by_slurm},
    {"launcher file", meet_by_launcher_file},
    {"pmix", meet_by_pmix},
}};

}  // namespace

std::span<const Method> methods() { return kMethods; }

Result<MethodOffer> meet_by_named_file(const MethodInput& input, std::string how) {
  ProcessPlace place{.host = local_host_name(), .machine = machine_key(), .launcher = {}};
  const std::string_view mark = launcher_mark(input.identity);
  if (!mark.empty()) place.launcher = launcher_process(mark);
  const auto name = name_job(input.environment, input.identity, place);
  if (!name.is_ok()) return decline(name.status().message());
  const auto folder = rendezvous_folder(input.settings.rendezvous_dir, input.environment);
  if (!folder.is_ok()) return decline(folder.status().message());
  MethodOffer offer;
  HVD_TRY_ASSIGN(offer.rendezvous, meet_by_file({.folder = folder.value(),
                                                 .name = name.value(),
                                                 .rank = input.identity.rank,
                                                 .place = std::move(place),
                                                 .interfaces = input.settings.first_interfaces},
                                                input.deadline));
  offer.how = std::move(how);
  return offer;
}

}  // namespace hvd
