// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_build.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "device/driver_library.h"
#include "device/kernels/kernel_image.h"

namespace hvd {
namespace {

/// ", 4 GPUs on this node", where the kernel module lists them.
std::string gpus_on_node() {
  std::error_code failure;
  const std::filesystem::directory_iterator list(vendor::kGpusOnNode, failure);
  if (failure) return "";
  int count = 0;
  for (const auto& entry : list) count += entry.path().empty() ? 0 : 1;
  return format_text(", {} GPU{} on this node", count, count == 1 ? "" : "s");
}

}  // namespace

GpuPart describe_gpu_driver(const GpuDriverSettings& settings) {
  const std::string name = format_text("{} driver", vendor::kPlatform);
  const auto driver = DriverLibrary::load(settings);
  if (!driver.is_ok()) return {name, false, driver.status().message()};
  const auto version = driver.value()->version();
  if (!version.is_ok()) return {name, false, version.status().message()};
  return {name, true,
          format_text("{}, up to {} {}{}", driver.value()->path(), vendor::kPlatform,
                      version.value(), gpus_on_node())};
}

GpuPart describe_gpu_kernels() {
  std::string list;
  for (const int architecture : kernel_architectures()) {
    list += (list.empty() ? "" : ", ") + vendor::architecture_name(architecture);
  }
  if (!list.empty()) return {"GPU kernels", true, list + vendor::kKernelsNote};
  return {"GPU kernels", false,
          "no compiler for kernels was found when libhvd was built: scripts/gpu_packages.sh"};
}

}  // namespace hvd
