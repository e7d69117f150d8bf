// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/check_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "launcher/node/nvml.h"
#include "launcher/node/read_node.h"

namespace hvd {
namespace {

/// The folder of this program.
std::filesystem::path program_folder() {
  std::error_code failure;
  return std::filesystem::read_symlink("/proc/self/exe", failure).parent_path();
}

std::vector<std::string> runtime_candidates(const std::string& named) {
  const std::filesystem::path here = program_folder();
  std::vector<std::string> paths;
  // The Python package looks there first as well.
  if (!named.empty()) paths.push_back(named);
  for (const char* folder : {"../lib", "../lib64", "../lib/x86_64-linux-gnu",
                             "../lib/aarch64-linux-gnu", "../runtime/c"}) {
    for (const char* name : {"libhvd.so.0", "libhvd.so"}) {
      paths.push_back((here / folder / name).lexically_normal().string());
    }
  }
  paths.emplace_back("libhvd.so.0");  // LD_LIBRARY_PATH and ld.so.cache
  paths.emplace_back("libhvd.so");
  return paths;
}

/// Why dlopen failed, in its own words.
std::string loader_text() {
  const char* text = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps one per thread.
  return text == nullptr ? "unknown" : text;
}

/// A library by the names it may have, and what its absence costs.
struct KnownLibrary {
  std::string name;
  std::vector<std::string> files;
  std::string use;
  std::string without;
};

CheckedPart look_up(const KnownLibrary& library) {
  for (const std::string& file : library.files) {
    // Left in place: a library with threads or exit handlers does not survive being unloaded.
    if (dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE) == nullptr) continue;
    return {library.name, true, format_text("{}: {}", file, library.use)};
  }
  return {library.name, false,
          format_text("{} is not installed or not in LD_LIBRARY_PATH: {}", library.files.front(),
                      library.without)};
}

std::vector<std::string> slurm_files() {
  std::vector<std::string> files{"libslurm.so"};
  // Each major release of Slurm has a new number: 38 is 22.05.
  for (int number = 45; number >= 36; --number) {
    files.push_back("libslurm.so." + std::to_string(number));
  }
  return files;
}

}  // namespace

RuntimeFound check_runtime(const std::string& named) {
  std::string last;
  for (const std::string& path : runtime_candidates(named)) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const std::string why = loader_text();
      if (path.front() != '/' || std::filesystem::exists(path)) last = why;
      continue;
    }
    using BuildInfo = const char* (*)();
    const auto build_info = reinterpret_cast<BuildInfo>(dlsym(handle, "hvd_build_info"));
    if (build_info == nullptr) {
      last = path + " has no hvd_build_info(): it is not the libhvd of this version";
      continue;
    }
    const Result<std::vector<CheckedGroup>> groups = parse_build_info(build_info());
    if (!groups.is_ok()) return {{"libhvd", false, groups.status().message()}, {}};
    return {{"libhvd", true, path}, groups.value()};  // stays loaded: it may own threads
  }
  return {{"libhvd", false,
           format_text("not found beside hvdrun ({}) or by the loader ({}): install it, or put its "
                       "folder in LD_LIBRARY_PATH",
                       (program_folder() / "../lib").lexically_normal().string(), last)},
          {}};
}

CheckedGroup check_machine() {
  const std::vector<KnownLibrary> libraries{
      {"PMIx",
       {"libpmix.so.2"},
       "ranks of srun --mpi=pmix can meet through it",
       "ranks of srun --mpi=pmix meet through a file instead"},
      {"libslurm", slurm_files(), "found, not initialised; 'hvdrun check' says whether it is asked",
       "Slurm is asked by its commands"},
      {"Open MPI",
       {"libmpi.so.40"},
       "mpirun can start ranks",
       "its mpirun cannot start ranks here; srun and hvdrun -np can"},
      {"MPICH",
       {"libmpich.so.12", "libmpi.so.12"},
       "mpiexec can start ranks",
       "its mpiexec cannot start ranks here; srun and hvdrun -np can"},
      {"NCCL",
       {"libnccl.so.2"},
       "found; a framework that brings its own comes first",
       "a framework brings its own; without one GPU memory moves through the host"},
      {"CUDA driver",
       {"libcuda.so.1"},
       "GPUs can be used by the framework",
       "no NVIDIA driver here, so the framework computes on the CPU"},
  };
  CheckedGroup group{"machine", {}};
  for (const KnownLibrary& library : libraries) group.parts.push_back(look_up(library));
  const auto peers = ask_peer_access(kNvmlLibrary, read_node("", {.gpus = true}));
  if (peers) group.parts.push_back(describe_peer_access(*peers));
  return group;
}

}  // namespace hvd
