// SPDX-License-Identifier: Apache-2.0
#include "c/build_info.h"

#include <array>
#include <span>
#include <string_view>

#include "base/format.h"
#include "c/backend_table.h"

namespace hvd {

namespace {

struct Part {
  std::string_view name;
  bool available;
  std::string_view reason;
};

// Plain words without quotes or backslashes: nothing here needs escaping.
std::string list_of(std::span<const Part> parts) {
  std::string text = "[";
  for (const Part& part : parts) {
    text += format_text(R"({}{{"name": "{}", "available": {}, "reason": "{}"}})",
                        text.size() > 1 ? ", " : "", part.name, part.available, part.reason);
  }
  return text + "]";
}

constexpr std::array kBootstraps{
    Part{"hvdrun", true, "linked in: the store of hvdrun carries the addresses"},
    Part{"mpi", false, "the MPI data plane is not part of this version"},
    Part{"slurm", true, "linked in: PMI-2 of srun, else a file in HVD_RENDEZVOUS_DIR"},
    Part{"launcher file", true,
         "linked in: a file in HVD_RENDEZVOUS_DIR for torchrun, mpirun, flux and their like"},
    Part{"pmix", HVD_HAS_PMIX != 0,
         HVD_HAS_PMIX != 0 ? "libpmix is loaded at run time"
                           : "the PMIx headers were missing at build time: libpmix-dev"},
    Part{"single", true, "linked in: one process alone"},
};

constexpr std::array kLibraries{
    Part{"libsodium", true, "linked in: connections are authenticated"},
    Part{"hwloc", HVD_HAS_HWLOC != 0,
         HVD_HAS_HWLOC != 0 ? "hvdrun binds ranks to CPUs"
                            : "missing at build time, hvdrun does not bind CPUs: libhwloc-dev"},
    Part{"mpi", false, "the MPI data plane is not part of this version"},
    Part{"nccl", false, "the GPU data plane is not part of this version"},
};

}  // namespace

std::string build_info() {
  std::string backends = "[";
  for (const BackendEntry& entry : backend_table()) {
    backends += format_text(R"({}{{"name": "{}", "available": true, "reason": "linked in"}})",
                            backends.size() > 1 ? ", " : "", entry.name);
  }
  backends += "]";
  return format_text(R"({{"version": "{}", "backends": {}, "bootstraps": {}, "libraries": {}}})",
                     HVD_VERSION, backends, list_of(kBootstraps), list_of(kLibraries));
}

}  // namespace hvd
