// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/mpi_world.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/format.h"

namespace hvd {
namespace {

/// MPI_COMM_WORLD of MPICH and all that share its ABI.
constexpr int kMpichWorld = 0x44000000;
constexpr std::array<std::string_view, 4> kMpichFamily = {"MPICH", "Intel(R) MPI", "MVAPICH",
                                                          "ParaStation"};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// True where the library calls itself one that shares MPICH's ABI: in another one that number is
/// no communicator, and asking would end the program.
bool has_mpich_abi(void* library) {
  int (*version)(char*, int*) = nullptr;
  if (!find(library, "MPI_Get_library_version", version)) return false;
  std::array<char, 8192 + 1> text{};  // MPI_MAX_LIBRARY_VERSION_STRING, the largest there is.
  int length = 0;
  if (version(text.data(), &length) != 0) return false;
  const std::string_view name(text.data());
  return std::any_of(kMpichFamily.begin(), kMpichFamily.end(), [&](std::string_view family) {
    return name.find(family) != std::string_view::npos;
  });
}

/// Asks one MPI library, if it is initialised and not yet finalised.
std::optional<int> world_size(void* library) {
  int (*initialized)(int*) = nullptr;
  int (*finalized)(int*) = nullptr;
  if (!find(library, "MPI_Initialized", initialized)) return std::nullopt;
  if (!find(library, "MPI_Finalized", finalized)) return std::nullopt;
  int flag = 0;
  if (initialized(&flag) != 0 || flag == 0) return std::nullopt;
  if (finalized(&flag) != 0 || flag != 0) return std::nullopt;
  int size = 0;
  const auto abi = mpi_abi_of(library);
  if (abi == MpiAbi::kOpenMpi) {
    int (*comm_size)(void*, int*) = nullptr;
    void* const world = ::dlsym(library, "ompi_mpi_comm_world");
    if (!find(library, "MPI_Comm_size", comm_size) || comm_size(world, &size) != 0) return {};
    return size;
  }
  if (abi != MpiAbi::kMpich) return std::nullopt;
  int (*comm_size)(int, int*) = nullptr;
  if (!find(library, "MPI_Comm_size", comm_size) || comm_size(kMpichWorld, &size) != 0) return {};
  return size;
}

/// Every loaded library called libmpi*: Open MPI's, MPICH's, Intel's, Cray's. A Python module loads
/// its MPI for itself alone, so the process's own symbols do not show it.
std::vector<std::string> mpi_libraries() {
  std::vector<std::string> paths;
  const auto take = [](dl_phdr_info* object, std::size_t, void* found) {
    const std::string path = object->dlpi_name;
    const std::size_t slash = path.rfind('/');
    const std::size_t name = slash == std::string::npos ? 0 : slash + 1;
    if (path.compare(name, 6, "libmpi") == 0) {
      static_cast<std::vector<std::string>*>(found)->push_back(path);
    }
    return 0;
  };
  ::dl_iterate_phdr(take, &paths);
  return paths;
}

}  // namespace

std::optional<MpiAbi> mpi_abi_of(void* library) {
  if (::dlsym(library, "MPI_Initialized") == nullptr) return std::nullopt;
  if (::dlsym(library, "ompi_mpi_comm_world") != nullptr) return MpiAbi::kOpenMpi;
  if (has_mpich_abi(library)) return MpiAbi::kMpich;
  return std::nullopt;
}

std::vector<LoadedMpi> loaded_mpi() {
  std::vector<LoadedMpi> found;
  // What dlsym finds everywhere comes first: a program may have MPI in itself.
  if (const auto abi = mpi_abi_of(RTLD_DEFAULT)) found.push_back({RTLD_DEFAULT, *abi});
  for (const std::string& path : mpi_libraries()) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) continue;
    const auto abi = mpi_abi_of(library);
    if (abi) {
      found.push_back({library, *abi});
    } else {
      ::dlclose(library);
    }
  }
  return found;
}

bool mpi_is_loaded() {
  // A program may have MPI in itself.
  return ::dlsym(RTLD_DEFAULT, "MPI_Init") != nullptr || !mpi_libraries().empty();
}

std::optional<int> initialised_mpi_size() {
  if (const auto size = world_size(RTLD_DEFAULT)) return size;
  for (const std::string& path : mpi_libraries()) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) continue;
    const auto size = world_size(library);
    ::dlclose(library);
    if (size) return size;
  }
  return std::nullopt;
}

std::string describe_mpi_mismatch(const Identity& identity, int mpi_size) {
  if (identity.size <= 0 || mpi_size == identity.size) return {};
  const std::string facts =
      format_text("MPI_COMM_WORLD has {} rank{} in this process, {} started {}", mpi_size,
                  mpi_size == 1 ? "" : "s", identity.source, identity.size);
  if (is_started_by(identity, "Slurm step")) {
    return facts +
           ": srun gave MPI no server that it knows; use --mpi=pmix (for MPICH and Intel MPI "
           "--mpi=pmi2; `srun --mpi=list` names what there is)";
  }
  return facts + ": the program's MPI library is not the launcher's; start it with its own mpirun";
}

}  // namespace hvd
