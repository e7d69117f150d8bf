// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "device/gpu_driver_settings.h"
#include "gpu_vendor.h"

namespace hvd {

/// A function of the driver, with the symbol it was found under.
template <typename Function>
struct DriverFunction {
  Function call = nullptr;
  const char* name = "";
};

#define HVD_QUOTE(text) #text
#define HVD_DRIVER_FIELD(field, function) \
  DriverFunction<decltype(&function)> field{nullptr, HVD_QUOTE(function)};

/// All that is called of the driver.
struct DriverFunctions {
  HVD_GPU_DRIVER_FUNCTIONS(HVD_DRIVER_FIELD)
};

#undef HVD_DRIVER_FIELD

/// The library of the GPU's driver, loaded at run time and kept until the process ends. Loading
/// initialises no device. Immutable after construction.
class DriverLibrary {
 public:
  /// That of HVD_CUDA_LIBRARY, else libcuda.so.1 (ROCm: HVD_HIP_LIBRARY, libamdhip64.so). What is
  /// loaded already is taken. kUnsupported: there is none, or a function is missing in it.
  static Result<std::unique_ptr<DriverLibrary>> load(const GpuDriverSettings& settings);

  const DriverFunctions& functions() const { return functions_; }
  /// The file that the functions come from.
  const std::string& path() const { return path_; }
  /// "12.4": the newest CUDA that the driver serves.
  Result<std::string> version() const;

  /// The failure `code` of `call`: names, the vendor's text, what to do.
  Status failure(std::string_view call, vendor::ErrorCode code) const;
  /// Calls a function of functions(); a code that is not success is a failure.
  template <typename Function, typename... Args>
  Status run(const DriverFunction<Function>& function, Args... args) const {
    const vendor::ErrorCode code = function.call(args...);
    return code == vendor::kSuccess ? Status::ok() : failure(function.name, code);
  }

 private:
  DriverLibrary() = default;
  Status find_functions(void* library, const std::string& name);

  DriverFunctions functions_;
  std::string path_;
};

}  // namespace hvd
