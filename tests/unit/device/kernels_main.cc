// SPDX-License-Identifier: Apache-2.0
// Runs the tests of the kernels on the first GPU: a real one, or that of the driver's double.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string_view>

#include "kernel_arena.h"

namespace hvd {
namespace {

Gpu* first_gpu = nullptr;

}  // namespace

Gpu& kernel_gpu() { return *first_gpu; }

}  // namespace hvd

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // Not static: the driver's library ends before what the program made earlier.
  const std::unique_ptr<hvd::Gpus> gpus =
      hvd::find_gpus(hvd::GpuDriverSettings::from(hvd::Environment::of_process()));
  const auto gpu = gpus->open({hvd::gpu_kind_of_build(), 0});
  if (!gpu.is_ok()) {
    const bool needed = argc > 1 && std::string_view(argv[1]) == "--need-gpu";
    std::printf("%s: %s\n", needed ? "failed" : "skipped", gpu.status().message().c_str());
    return needed ? 1 : 77;
  }
  hvd::first_gpu = gpu.value();
  std::printf("on %s\n", hvd::first_gpu->facts().name.c_str());
  return RUN_ALL_TESTS();
}
