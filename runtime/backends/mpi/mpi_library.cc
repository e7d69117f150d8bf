// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi/mpi_library.h"

#include <dlfcn.h>

#include <array>
#include <span>
#include <vector>

#include "base/dl_text.h"

namespace hvd {
namespace {

constexpr std::array<const char*, 2> kOpenMpi = {"libmpi.so.40", "libmpi.so.80"};
constexpr std::array<const char*, 4> kMpich = {"libmpi.so.12", "libmpich.so.12",
                                               "libmpi_cray.so.12", "libmpi_gnu.so.12"};

/// The family whose launcher started this process comes first.
std::vector<const char*> sonames(const Environment& environment) {
  std::span<const char* const> first = kOpenMpi;
  std::span<const char* const> second = kMpich;
  const bool pmi = environment.has("PMI_RANK") || environment.has("PALS_RANKID");
  if (pmi && !environment.has("OMPI_COMM_WORLD_SIZE")) std::swap(first, second);
  std::vector<const char*> names(first.begin(), first.end());
  names.insert(names.end(), second.begin(), second.end());
  return names;
}

}  // namespace

std::string plugin_name(MpiAbi abi) {
  return abi == MpiAbi::kOpenMpi ? "libhvd_mpi_openmpi.so" : "libhvd_mpi_mpich.so";
}

Result<const hvd_mpi_plugin*> load_plugin(MpiAbi abi) {
  // A bare name: the run path of libhvd says $ORIGIN.
  const std::string name = plugin_name(abi);
  void* const plugin = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    return error(Code::kUnsupported,
                 "the plugin for {} is missing ({}); build libhvd where the headers are "
                 "(libopenmpi-dev, libmpich-dev) and install {} beside it",
                 abi == MpiAbi::kOpenMpi ? "Open MPI" : "MPICH", dl_text(), name);
  }
  const auto table =
      reinterpret_cast<hvd_mpi_plugin_function>(::dlsym(plugin, HVD_MPI_PLUGIN_SYMBOL));
  if (table == nullptr || table()->version != HVD_MPI_PLUGIN_VERSION) {
    return error(Code::kUnsupported, "{} belongs to another version of libhvd: install both anew",
                 name);
  }
  return table();
}

Result<std::unique_ptr<MpiLibrary>> MpiLibrary::bind(const LoadedMpi& loaded) {
  HVD_TRY_ASSIGN(const hvd_mpi_plugin* const plugin, load_plugin(loaded.abi));
  const char* missing = nullptr;
  hvd_mpi* const mpi = plugin->bind(loaded.library, &missing);
  if (mpi == nullptr) {
    return error(Code::kUnsupported, "the MPI library of this process has no {}; MPI 3 is needed",
                 missing);
  }
  return std::unique_ptr<MpiLibrary>(new MpiLibrary(plugin, mpi));
}

Result<std::unique_ptr<MpiLibrary>> MpiLibrary::in_process() {
  std::unique_ptr<MpiLibrary> found;
  for (const LoadedMpi& loaded : loaded_mpi()) {
    HVD_TRY_ASSIGN(auto library, bind(loaded));
    HVD_TRY_ASSIGN(const hvd_mpi_state state, library->state());
    if (state.initialized != 0) return library;
    if (found == nullptr) found = std::move(library);
  }
  return found;
}

Result<std::unique_ptr<MpiLibrary>> MpiLibrary::open(const Environment& environment,
                                                     const std::string& given) {
  std::vector<const char*> names = sonames(environment);
  if (!given.empty()) names = {given.c_str()};
  std::string tried;
  for (const char* name : names) {
    // Global: an MPI opens parts of its own, which look for its symbols.
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      tried += format_text("{}{}", tried.empty() ? "" : ", ", name);
      continue;
    }
    if (const auto abi = mpi_abi_of(library)) return bind({library, *abi});
    return error(Code::kUnsupported, "{} is neither Open MPI nor of MPICH's family", name);
  }
  return error(Code::kUnsupported,
               "no MPI library was found ({}); name one in HVD_MPI_LIBRARY, or load the site's "
               "MPI module",
               tried);
}

MpiLibrary::~MpiLibrary() { plugin_->unbind(mpi_); }

Result<hvd_mpi_state> MpiLibrary::state() const {
  hvd_mpi_state state;
  HVD_TRY(check(plugin_->state(mpi_, &state), "cannot ask MPI for its state"));
  return state;
}

Status MpiLibrary::check(int code, std::string_view what) const {
  if (code == 0) return Status::ok();
  std::array<char, 512> text{};
  plugin_->error_text(mpi_, code, text.data(), static_cast<int>(text.size()));
  return error(Code::kSystem, "{}: {} (MPI error {})", what, text.data(), code);
}

}  // namespace hvd
