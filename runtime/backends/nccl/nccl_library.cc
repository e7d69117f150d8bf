// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_library.h"

#include <dlfcn.h>
#include <link.h>

#include "base/dl_text.h"
#include "base/log.h"

namespace hvd {
namespace {

std::string path_of(void* library) {
  const link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return {};
  return map->l_name;
}

int look_for_nccl(dl_phdr_info* object, std::size_t, void* found) {
  const std::string_view path = object->dlpi_name;
  const std::string_view file = path.substr(path.find_last_of('/') + 1);
  if (file.rfind(kNcclStem, 0) != 0) return 0;
  *static_cast<std::string*>(found) = path;
  return 1;
}

/// The program itself, where that has NCCL in it, can be opened by no name.
void* open_library(const NcclSource& source) {
  void* const library = ::dlopen(source.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr && source.is_loaded ? ::dlopen(nullptr, RTLD_NOW) : library;
}

/// Whether a file is that library, under whatever path.
bool is_file_of(void* library, const std::string& file) {
  void* const loaded = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (loaded != nullptr) ::dlclose(loaded);
  return loaded == library;
}

/// Of the NCCL that the program was linked with, or a library that everybody sees (a libtorch that
/// has NCCL in it): a second NCCL would call its functions instead of its own, since it calls them
/// by name, and hand it what it knows nothing of.
std::string linked_nccl_path() {
  Dl_info one{};
  Dl_info other{};
  void* const version = ::dlsym(RTLD_DEFAULT, "ncclGetVersion");
  void* const id = ::dlsym(RTLD_DEFAULT, "ncclGetUniqueId");
  if (version == nullptr || id == nullptr) return {};
  const bool is_known = ::dladdr(version, &one) != 0 && ::dladdr(id, &other) != 0;
  // What stands before some functions alone, to count them, is not NCCL.
  if (!is_known || one.dli_fname == nullptr || one.dli_fbase != other.dli_fbase) return {};
  return one.dli_fname;
}

template <typename Function>
bool find(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, symbol));
  return function != nullptr;
}

/// The first required function that is missing; null: none is.
const char* fill(NcclCalls& calls, void* library) {
#define HVD_NCCL_FIND(member, symbol, ...) find(library, #symbol, calls.member);
  HVD_NCCL_OPTIONAL(HVD_NCCL_FIND)
#undef HVD_NCCL_FIND
#define HVD_NCCL_FIND(member, symbol) \
  if (!find(library, #symbol, calls.member)) return #symbol;
  HVD_NCCL_REQUIRED(HVD_NCCL_FIND)
#undef HVD_NCCL_FIND
  return nullptr;
}

}  // namespace

NcclSource NcclSource::choose(std::string_view loaded, std::string_view wanted) {
  if (!loaded.empty()) {
    return {std::string(loaded), "the process had loaded it", true};
  }
  if (!wanted.empty()) return {std::string(wanted), "HVD_NCCL_LIBRARY names it", false};
  return {kNcclSoname, "the system's loader finds it by this name", false};
}

std::string loaded_nccl_path() {
  if (std::string linked = linked_nccl_path(); !linked.empty()) return linked;
  // By soname, whatever its file is called.
  if (void* const library = ::dlopen(kNcclSoname, RTLD_LAZY | RTLD_NOLOAD)) {
    const std::string path = path_of(library);
    ::dlclose(library);
    return path.empty() ? kNcclSoname : path;
  }
  std::string path;
  ::dl_iterate_phdr(&look_for_nccl, &path);
  return path;
}

int nccl_version_here() {
  int version = NCCL_VERSION_CODE;
  const std::string loaded = loaded_nccl_path();
  void* const library =
      loaded.empty() ? nullptr : ::dlopen(loaded.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return version;
  decltype(&ncclGetVersion) get_version = nullptr;
  if (find(library, "ncclGetVersion", get_version)) static_cast<void>(get_version(&version));
  ::dlclose(library);
  return version;
}

std::string nccl_version_text(int version) {
  return format_text("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Result<NcclLibrary> NcclLibrary::open(const std::string& wanted) {
  NcclLibrary nccl;
  nccl.source_ = NcclSource::choose(loaded_nccl_path(), wanted);
  void* const library = open_library(nccl.source_);
  if (library == nullptr) {
    return error(Code::kUnsupported,
                 "no {} was found ({}); name its library in HVD_NCCL_LIBRARY, load the site's "
                 "module, or import a framework that brings it before the first tensor on a GPU",
                 kNcclTitle, dl_text());
  }
  if (const std::string path = path_of(library); !path.empty()) nccl.source_.path = path;
  const char* const missing = fill(nccl.calls_, library);
  if (nccl.calls_.get_version == nullptr ||
      nccl.calls_.get_version(&nccl.version_) != ncclSuccess) {
    return error(Code::kUnsupported, "{} is no {}: it has no version", nccl.source_.path,
                 kNcclTitle);
  }
  if (missing != nullptr || nccl.version_ < kOldest) {
    return error(Code::kUnsupported, "{} is {} {}{}{}; {} or newer is needed", nccl.source_.path,
                 kNcclTitle, nccl_version_text(nccl.version_),
                 missing == nullptr ? "" : " without ", missing == nullptr ? "" : missing,
                 nccl_version_text(kOldest));
  }
  if (nccl.source_.is_loaded && !wanted.empty() && !is_file_of(library, wanted)) {
    log(LogLevel::kWarning, "nccl",
        "HVD_NCCL_LIBRARY={} is not used, since the process has loaded {}, and two copies of {} "
        "would fight over the GPUs",
        wanted, nccl.source_.path, kNcclTitle);
  }
  return nccl;
}

std::string NcclLibrary::describe() const {
  return format_text("{} {} ({}: {})", kNcclTitle, nccl_version_text(version_), source_.path,
                     source_.reason);
}

}  // namespace hvd
