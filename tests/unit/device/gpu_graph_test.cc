// SPDX-License-Identifier: Apache-2.0
// Kernels and graphs, through a driver that runs the kernels of the host build, whatever the image.
#include <elf.h>
#include <gmock/gmock.h>

#include <cstring>
#include <string>

#include "cuda_gpus.h"
#include "device/driver_gpu.h"
#include "device/kernels/kernel_arguments.h"
#include "device/kernels/kernel_names.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::span<const std::byte> some_text(int) {
  static constexpr char kText[] = ".version 8.8\n.target sm_60\n";
  return std::as_bytes(std::span(kText));
}
std::span<const std::byte> no_image(int) { return {}; }
std::span<const std::byte> broken_image(int) {
  static constexpr char kText[] = "neither code nor text";
  return std::as_bytes(std::span(kText));
}

/// The begin of code for sm_90, which GPUs of sm_80 do not run.
std::span<const std::byte> code_of_another_family(int) {
  static const Elf64_Ehdr header = [] {
    Elf64_Ehdr made{};
    std::memcpy(made.e_ident, ELFMAG, SELFMAG);
    made.e_ident[EI_ABIVERSION] = 7;
    made.e_flags = 90;
    return made;
  }();
  return std::as_bytes(std::span(&header, 1));
}
std::span<const std::byte> text_of_newer_gpus(int) {
  static constexpr char kText[] = ".version 8.8\n.target sm_100\n";
  return std::as_bytes(std::span(kText));
}

class GpuGraphTest : public CudaGpus {
 protected:
  std::unique_ptr<DriverGpu> open(KernelImages images) {
    if (library_ == nullptr) {
      library_ = DriverLibrary::load(GpuDriverSettings::from(Environment::of_process())).value();
    }
    return DriverGpu::open(*library_, 0, images).value();
  }

  /// Fills `bytes` bytes with `value`.
  static kernels::FillArguments fill(void* memory, std::uint32_t bytes, std::uint8_t value) {
    kernels::FillArguments arguments{};
    for (auto& word : arguments.pattern) word = value * 0x01010101U;
    arguments.list.tensors[0] = memory;
    arguments.list.counts[0] = bytes;
    arguments.list.size = 1;
    return arguments;
  }
  static Status launch(Gpu& gpu, kernels::FillArguments arguments, StreamHandle stream) {
    HVD_TRY_ASSIGN(void* const kernel, gpu.kernel("hvd_fill"));
    void* argument = &arguments;
    return gpu.launch(kernel, {1, kernels::kThreads}, std::span(&argument, 1), stream);
  }

  std::unique_ptr<DriverLibrary> library_;
};

TEST_F(GpuGraphTest, RunsAKernelByNameWithACopyOfItsArguments) {
  const auto gpu = open(some_text);
  const StreamHandle queue = stream();
  auto* const memory = allocate<std::uint8_t>(64);
  std::memset(memory, 0, 64);
  double_hang(static_cast<CUstream>(queue));
  ASSERT_TRUE(launch(*gpu, fill(memory, 64, 7), queue).is_ok());
  EXPECT_EQ(memory[0], 0);
  double_release();
  ASSERT_TRUE(finish(*gpu, queue).is_ok());
  EXPECT_EQ(memory[0], 7);
  EXPECT_EQ(memory[63], 7);
  gpu_->deallocate(memory);
}

// Later the driver might wait for a collective that waits for other ranks.
TEST_F(GpuGraphTest, LoadsAllKernelsWithTheFirst) {
  const auto gpu = open(some_text);
  void* const fill = gpu->kernel("hvd_fill").value();
  const std::uint64_t loaded = double_calls("cuModuleGetFunction");
  EXPECT_EQ(loaded, std::size(kKernelNames));
  for (const std::string_view name : kKernelNames) EXPECT_TRUE(gpu->kernel(name).is_ok()) << name;
  EXPECT_EQ(gpu->kernel("hvd_fill").value(), fill);
  EXPECT_EQ(double_calls("cuModuleLoadData"), 1U);
  EXPECT_EQ(double_calls("cuModuleGetFunction"), loaded);
}

TEST_F(GpuGraphTest, SaysThatThereIsNoSuchKernel) {
  const auto gpu = open(some_text);
  const auto kernel = gpu->kernel("hvd_nonsense");
  EXPECT_EQ(kernel.status().code(), Code::kInternal);
  EXPECT_THAT(kernel.status().message(),
              AllOf(HasSubstr("kernel hvd_nonsense: GPU 0"), HasSubstr("CUDA_ERROR_NOT_FOUND")));
}

TEST_F(GpuGraphTest, SaysThatTheBuildHasNoKernelsForTheGpu) {
  const auto without = open(no_image);
  EXPECT_EQ(without->kernel("hvd_fill").status().code(), Code::kUnsupported);
  EXPECT_THAT(without->kernel("hvd_fill").status().message(),
              HasSubstr("GPU 0 (Double of a GPU): this build has no kernels for sm_80"));
  const auto broken = open(broken_image);
  EXPECT_THAT(broken->kernel("hvd_fill").status().message(),
              AllOf(HasSubstr("cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE"),
                    HasSubstr("a newer driver, or a build with an older CUDA")));
}

TEST_F(GpuGraphTest, LoadsNoKernelsOfOtherGpus) {
  for (const KernelImages images : {&code_of_another_family, &text_of_newer_gpus}) {
    EXPECT_THAT(open(images)->kernel("hvd_fill").status().message(),
                AllOf(HasSubstr("cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU"),
                      HasSubstr("hvdrun check --build")));
  }
}

TEST_F(GpuGraphTest, SaysThatALaunchFailed) {
  const auto gpu = open(some_text);
  const StreamHandle queue = stream();
  auto* const memory = allocate<std::uint8_t>(64);
  void* const kernel = gpu->kernel("hvd_fill").value();
  kernels::FillArguments arguments = fill(memory, 64, 1);
  void* argument = &arguments;
  EXPECT_THAT(gpu->launch(kernel, {0, 256}, std::span(&argument, 1), queue).message(),
              HasSubstr("cuLaunchKernel: CUDA_ERROR_INVALID_VALUE"));
  EXPECT_FALSE(gpu->launch(kernel, {1, 256}, std::span(&argument, 1), stream(*other_gpu_)).is_ok());
  gpu_->deallocate(memory);
}

TEST_F(GpuGraphTest, RunsACapturedStreamAgainAndAgain) {
  const auto gpu = open(some_text);
  const StreamHandle queue = stream();
  const StreamHandle beside = stream();
  auto* const memory = allocate<std::uint8_t>(128);
  std::memset(memory, 0, 128);
  ASSERT_TRUE(gpu->kernel("hvd_fill").is_ok());  // a capture holds no loading of modules
  ASSERT_TRUE(gpu->begin_capture(queue).is_ok());
  ASSERT_TRUE(launch(*gpu, fill(memory, 64, 3), queue).is_ok());
  const GpuEventPtr fork = gpu->record(queue).value();
  ASSERT_TRUE(gpu->make_wait(beside, *fork).is_ok());
  ASSERT_TRUE(gpu->set_bytes(memory + 64, 4, 64, beside).is_ok());
  const GpuEventPtr join = gpu->record(beside).value();
  ASSERT_TRUE(gpu->make_wait(queue, *join).is_ok());
  const auto graph = gpu->end_capture(queue);
  ASSERT_TRUE(graph.is_ok()) << graph.status().message();
  EXPECT_EQ(double_graphs(), 1U);
  EXPECT_EQ(memory[0], 0) << "nothing runs while it is captured";
  for (int run = 0; run < 3; ++run) {
    std::memset(memory, 0, 128);
    ASSERT_TRUE(gpu->launch_graph(graph.value(), queue).is_ok());
    ASSERT_TRUE(finish(*gpu, queue).is_ok());
    EXPECT_EQ(memory[0], 3);
    EXPECT_EQ(memory[127], 4);
  }
  gpu->destroy_graph(graph.value());
  gpu->destroy_graph(nullptr);
  EXPECT_EQ(double_graphs(), 0U);
  gpu_->deallocate(memory);
}

TEST_F(GpuGraphTest, SaysWhyAStreamCannotBeCaptured) {
  const StreamHandle queue = stream();
  ASSERT_TRUE(gpu_->begin_capture(queue).is_ok());
  EXPECT_FALSE(gpu_->allocate(10).is_ok());
  EXPECT_THAT(gpu_->end_capture(queue).status().message(),
              HasSubstr("cuStreamEndCapture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"));
  EXPECT_EQ(double_graphs(), 0U);
  EXPECT_TRUE(finish(*gpu_, queue).is_ok()) << "the stream serves as before";

  ASSERT_TRUE(gpu_->begin_capture(queue).is_ok());
  double_fail("cuGraphInstantiateWithFlags", 1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(gpu_->end_capture(queue).status().message(), HasSubstr("cuGraphInstantiate"));
  EXPECT_EQ(double_graphs(), 0U);
  EXPECT_FALSE(gpu_->begin_capture(nullptr).is_ok());
}

}  // namespace
}  // namespace hvd
