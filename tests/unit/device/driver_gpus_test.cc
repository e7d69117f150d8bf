// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <string>
#include <thread>
#include <vector>

#include "cuda_gpus.h"
#include "device/driver_library.h"
#include "device/gpu_build.h"
#include "device/kernels/kernel_image.h"

namespace hvd {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class DriverGpusTest : public testing::Test {
 protected:
  void SetUp() override { double_reset(); }
  void TearDown() override { double_reset(); }
  const GpuDriverSettings settings_ = GpuDriverSettings::from(Environment::of_process());
};

std::unique_ptr<Gpus> gpus_of(const std::string& library) {
  return find_gpus({.library = library});
}

TEST_F(DriverGpusTest, TouchesNoDriverBeforeTheFirstGpu) {
  const auto gpus = find_gpus(settings_);
  EXPECT_EQ(double_calls("cuInit"), 0U);
  EXPECT_EQ(gpus->count().value(), 2);
  EXPECT_EQ(double_calls("cuDevicePrimaryCtxRetain"), 0U);
  ASSERT_TRUE(gpus->open({DeviceKind::kCuda, 1}).is_ok());
  EXPECT_EQ(double_calls("cuInit"), 1U);
  EXPECT_EQ(double_calls("cuDevicePrimaryCtxRetain"), 1U);
}

TEST_F(DriverGpusTest, LoadsTheDriverWithoutInitialisingIt) {
  const auto library = DriverLibrary::load(settings_);
  ASSERT_TRUE(library.is_ok()) << library.status().message();
  EXPECT_THAT(library.value()->path(), HasSubstr("libcuda_double.so"));
  EXPECT_THAT(library.value()->version().value(), testing::MatchesRegex("1[0-9]\\.[0-9]"));
  EXPECT_EQ(double_calls("cuInit"), 0U);
}

TEST_F(DriverGpusTest, DescribesTheDriverWithoutTouchingAGpu) {
  const GpuPart driver = describe_gpu_driver(settings_);
  EXPECT_EQ(driver.name, "CUDA driver");
  EXPECT_TRUE(driver.is_there);
  EXPECT_THAT(driver.reason, HasSubstr("libcuda_double.so, up to CUDA 1"));
  EXPECT_EQ(double_calls("cuInit"), 0U);
  const GpuPart none = describe_gpu_driver({.library = "/nowhere"});
  EXPECT_FALSE(none.is_there);
  EXPECT_THAT(none.reason, HasSubstr("no driver of NVIDIA GPUs"));
  double_fail("cuDriverGetVersion", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_FALSE(describe_gpu_driver(settings_).is_there);
}

TEST_F(DriverGpusTest, TellsWhichGpusTheBuildHasKernelsFor) {
  const GpuPart kernels = describe_gpu_kernels();
  EXPECT_EQ(kernels.is_there, !kernel_image(90).empty());
  EXPECT_THAT(kernels.reason, HasSubstr(kernels.is_there ? "sm_90" : "scripts/gpu_packages.sh"));
}

TEST_F(DriverGpusTest, OpensAGpuOnce) {
  const auto gpus = find_gpus(settings_);
  const Device device{DeviceKind::kCuda, 0};
  std::vector<Gpu*> opened(4);
  std::vector<std::thread> threads;
  for (Gpu*& gpu : opened) {
    threads.emplace_back([&] { gpu = gpus->open(device).value(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Gpu* gpu : opened) EXPECT_EQ(gpu, opened[0]);
  EXPECT_EQ(double_calls("cuDevicePrimaryCtxRetain"), 1U);
}

TEST_F(DriverGpusTest, GivesContextsBack) {
  ASSERT_TRUE(find_gpus(settings_)->open({DeviceKind::kCuda, 0}).is_ok());
  EXPECT_EQ(double_calls("cuDevicePrimaryCtxRelease"), 1U);
}

TEST_F(DriverGpusTest, SaysWhichGpusThereAre) {
  const auto gpus = find_gpus(settings_);
  for (const int index : {2, -1}) {
    const Status status = gpus->open({DeviceKind::kCuda, index}).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.message(),
              "there is no GPU " + std::to_string(index) + ": this process sees 2");
  }
}

TEST_F(DriverGpusTest, ServesOneVendor) {
  const Status status = find_gpus(settings_)->open({DeviceKind::kRocm, 0}).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("this build serves NVIDIA GPUs (CUDA)"));
  EXPECT_EQ(gpu_kind_of_build(), DeviceKind::kCuda);
}

TEST_F(DriverGpusTest, SaysThatThereIsNoDriver) {
  const auto gpus = gpus_of("/nowhere/libcuda.so.1");
  const Status status = gpus->open({DeviceKind::kCuda, 0}).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("no driver of NVIDIA GPUs can be loaded: /nowhere/libcuda.so.1"),
                    HasSubstr("HVD_CUDA_LIBRARY names it")));
  EXPECT_EQ(gpus->count().status().message(), status.message());
}

TEST_F(DriverGpusTest, SaysWhatToDoOnAMachineWithoutGpus) {
  if (void* const real = ::dlopen("libcuda.so.1", RTLD_NOW); real != nullptr) {
    GTEST_SKIP() << "this machine has a driver";
  }
  const Status status = find_gpus({})->count().status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("libcuda.so.1"), HasSubstr("a node with GPUs?")));
}

TEST_F(DriverGpusTest, NamesTheFunctionsThatADriverLacks) {
  const Status status = gpus_of("libm.so.6")->count().status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("libm.so.6 has no cuInit, cuDriverGetVersion"),
                                      HasSubstr("cuMemAlloc_v2"), HasSubstr("older")));
}

TEST_F(DriverGpusTest, SaysWhyNoGpuCanBeUsed) {
  struct Case {
    CUresult code;
    const char* remedy;
  };
  for (const Case& one : {Case{CUDA_ERROR_NO_DEVICE, "--gpus-per-node"},
                          Case{CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "apptainer --nv"},
                          Case{CUDA_ERROR_SYSTEM_NOT_READY, "nvidia-fabricmanager"},
                          Case{CUDA_ERROR_NOT_INITIALIZED, "spawn"}}) {
    double_fail("cuInit", 1, one.code);
    Environment environment = Environment::of_process();
    environment.set("CUDA_VISIBLE_DEVICES", "7");
    const Status status =
        find_gpus(GpuDriverSettings::from(environment))->open({DeviceKind::kCuda, 0}).status();
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("no GPU can be used (CUDA_VISIBLE_DEVICES=7): cuInit: CUDA_ERROR_"),
                      HasSubstr(one.remedy)));
  }
}

TEST_F(DriverGpusTest, SaysWhatFailsWhileAGpuIsOpened) {
  for (const char* function :
       {"cuDeviceGet", "cuDeviceGetName", "cuDeviceGetPCIBusId", "cuDeviceGetUuid_v2",
        "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain"}) {
    const auto gpus = find_gpus(settings_);
    double_fail(function, 1, CUDA_ERROR_DEVICE_UNAVAILABLE);
    const Status status = gpus->open({DeviceKind::kCuda, 1}).status();
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("GPU 1"), HasSubstr(function), HasSubstr("one rank per GPU")));
    EXPECT_TRUE(gpus->open({DeviceKind::kCuda, 1}).is_ok()) << "the next try";
  }
}

TEST_F(DriverGpusTest, HasARemedyForWhatUsersMeet) {
  for (const CUresult code :
       {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
        CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
        CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE,
        CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_LAUNCH_FAILED}) {
    EXPECT_STRNE(vendor::remedy(code), "") << code;
  }
  EXPECT_STREQ(vendor::remedy(CUDA_ERROR_INVALID_VALUE), "");
}

}  // namespace
}  // namespace hvd
