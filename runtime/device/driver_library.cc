// SPDX-License-Identifier: Apache-2.0
#include "device/driver_library.h"

#include <dlfcn.h>

#include <span>
#include <type_traits>
#include <vector>

#include "base/read_setting.h"

namespace hvd {

namespace {

struct Opened {
  void* library = nullptr;
  std::string name;
  std::string reason;  ///< Why there is none.
};

/// The first of the names that is loaded already, else the first that can be.
Opened open_first(std::span<const std::string> names) {
  for (const std::string& name : names) {
    void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library != nullptr) return {library, name, ""};
  }
  Opened none;
  for (const std::string& name : names) {
    void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) return {library, name, ""};
    const char* const reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
    if (none.reason.empty()) none.reason = reason == nullptr ? name : reason;
  }
  return none;
}

}  // namespace

GpuDriverSettings GpuDriverSettings::from(const Environment& environment) {
  GpuDriverSettings settings{.library = read_text(environment, vendor::kDriverVariable)};
  if (const auto visible = environment.get(vendor::kVisibleVariable)) {
    settings.visible = format_text("{}={}", vendor::kVisibleVariable, *visible);
  }
  return settings;
}

Result<std::unique_ptr<DriverLibrary>> DriverLibrary::load(const GpuDriverSettings& settings) {
  const std::string& named = settings.library;
  std::vector<std::string> names(vendor::kDriverLibraries.begin(), vendor::kDriverLibraries.end());
  if (!named.empty()) names = {named};
  const Opened opened = open_first(names);
  if (opened.library == nullptr) {
    return error(Code::kUnsupported, "no driver of {} GPUs can be loaded: {}; {}", vendor::kVendor,
                 opened.reason,
                 named.empty() ? format_text("is this a node with GPUs? {} names a driver library "
                                             "that lies elsewhere",
                                             vendor::kDriverVariable)
                               : format_text("{} names it", vendor::kDriverVariable));
  }
  std::unique_ptr<DriverLibrary> driver(new DriverLibrary);
  HVD_TRY(driver->find_functions(opened.library, opened.name));
  Dl_info place{};
  // A file of the same soname may have been loaded before, from elsewhere.
  driver->path_ =
      ::dladdr(reinterpret_cast<void*>(driver->functions_.initialise.call), &place) != 0 &&
              place.dli_fname != nullptr
          ? place.dli_fname
          : opened.name;
  return driver;
}

Status DriverLibrary::find_functions(void* library, const std::string& name) {
  std::string missing;
  const auto find = [&](auto& function) {
    using Function = std::remove_reference_t<decltype(function.call)>;
    function.call = reinterpret_cast<Function>(::dlsym(library, function.name));
    if (function.call != nullptr) return;
    missing += (missing.empty() ? "" : ", ") + std::string(function.name);
  };
#define HVD_FIND(field, function) find(functions_.field);
  HVD_GPU_DRIVER_FUNCTIONS(HVD_FIND)
#undef HVD_FIND
  if (missing.empty()) return Status::ok();
  return error(Code::kUnsupported,
               "{} has no {}: the driver is older than the headers that libhvd was built with; a "
               "newer driver, or a build with older headers (-Dgpu_roots=), is needed",
               name, missing);
}

Result<std::string> DriverLibrary::version() const {
  int number = 0;
  HVD_TRY(run(functions_.driver_version, &number));
  return vendor::version_text(number);
}

Status DriverLibrary::failure(std::string_view call, vendor::ErrorCode code) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (functions_.error_name.call(code, &name) != vendor::kSuccess || name == nullptr) name = "";
  if (functions_.error_text.call(code, &text) != vendor::kSuccess || text == nullptr) {
    text = "unknown code";
  }
  const std::string_view remedy = vendor::remedy(code);
  return error(Code::kSystem, "{}: {} ({}): {}{}{}", call, name, static_cast<int>(code), text,
               remedy.empty() ? "" : "; ", remedy);
}

}  // namespace hvd
