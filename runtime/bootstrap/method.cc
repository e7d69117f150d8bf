// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/method.h"

#include <array>

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

std::string launcher_of(const Identity& identity) {
  for (const IdentityClaim& claim : identity.details) {
    if (claim.source != "hvdrun") return claim.source;
  }
  return identity.source;
}

}  // namespace hvd
