// SPDX-License-Identifier: Apache-2.0
#include "c/build_info.h"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/mpi/mpi_library.h"
#include "backends/nccl/nccl_backend.h"
#include "base/environment.h"
#include "base/format.h"
#include "base/read_setting.h"
#include "c/backend_table.h"
#include "device/gpu_build.h"

namespace hvd {

namespace {

struct Part {
  std::string_view name;
  bool available;
  std::string_view reason;
};

/// A path or a loader's text may hold what JSON has to escape.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') safe += '\\';
    safe += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
  }
  return safe;
}

std::string list_of(std::span<const Part> parts) {
  std::string text = "[";
  for (const Part& part : parts) {
    text +=
        format_text(R"({}{{"name": "{}", "available": {}, "reason": "{}"}})",
                    text.size() > 1 ? ", " : "", part.name, part.available, escaped(part.reason));
  }
  return text + "]";
}

constexpr std::array kBootstraps{
    Part{"hvdrun", true, "linked in: the store of hvdrun carries the addresses"},
    Part{"mpi", false, "MPI moves data only, once the ranks have met"},
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
         HVD_HAS_HWLOC != 0
             ? "hvdrun topo reads nodes that lstopo recorded (--xml)"
             : "left out at build time: hvdrun topo --xml is refused, all else works"},
};

/// The plugin for one MPI; no MPI is loaded for the answer.
std::string plugin_part(std::string_view name, MpiAbi abi) {
  const auto plugin = load_plugin(abi);
  const std::string reason =
      plugin.is_ok() ? format_text("{} lies beside libhvd; the MPI library is found at run time",
                                   plugin_name(abi))
                     : plugin.status().message();
  const Part part{name, plugin.is_ok(), reason};
  return list_of({&part, 1});
}

std::string gpu_parts(const Environment& environment) {
  const GpuPart driver = describe_gpu_driver(GpuDriverSettings::from(environment));
  const GpuPart kernels = describe_gpu_kernels();
  const std::array parts{Part{driver.name, driver.is_there, driver.reason},
                         Part{kernels.name, kernels.is_there, kernels.reason}};
  return list_of(parts);
}

/// One list of the lists of parts.
std::string join(std::string list, std::string_view more) {
  list.back() = ',';
  return list + " " + std::string(more.substr(1));
}

}  // namespace

std::string build_info() {
  const std::string openmpi = plugin_part("Open MPI plugin", MpiAbi::kOpenMpi);
  const std::string mpich = plugin_part("MPICH plugin", MpiAbi::kMpich);
  const bool has_mpi = load_plugin(MpiAbi::kOpenMpi).is_ok() || load_plugin(MpiAbi::kMpich).is_ok();
  const Part mpi{"mpi", has_mpi,
                 has_mpi ? "loaded at run time where MPI is chosen"
                         : "no plugin lies beside libhvd: libopenmpi-dev or libmpich-dev"};
  const Environment environment = Environment::of_process();
  const NcclBuild nccl = describe_nccl_build(read_text(environment, "HVD_NCCL_LIBRARY"));
  std::vector<Part> backends;
  for (const BackendEntry& entry : backend_table()) {
    const bool is_nccl = entry.name == kNcclBackend.name;
    backends.push_back({entry.name, !is_nccl || nccl.is_there,
                        is_nccl ? std::string_view(nccl.reason) : "linked in"});
  }
  backends.push_back(mpi);
  const std::string libraries =
      join(join(join(list_of(kLibraries), openmpi), mpich), gpu_parts(environment));
  return format_text(
      R"({{"version": "{}", "nccl_version": {}, "backends": {}, "bootstraps": {}, "libraries": {}}})",
      HVD_VERSION, nccl.version, list_of(backends), list_of(kBootstraps), libraries);
}

}  // namespace hvd
