// SPDX-License-Identifier: Apache-2.0
#include "gpu/rank_gpu.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

namespace hvd_test {
namespace {

// Names of cuda.h are macros for the newest version of a function.
#define HVD_TEST_QUOTE(text) #text
#define HVD_TEST_NAME(name) HVD_TEST_QUOTE(name)
#define HVD_TEST_DRIVER(X)                       \
  X(initialise, cuInit)                          \
  X(count, cuDeviceGetCount)                     \
  X(device_name, cuDeviceGetName)                \
  X(retain, cuDevicePrimaryCtxRetain)            \
  X(set_current, cuCtxSetCurrent)                \
  X(create_stream, cuStreamCreate)               \
  X(finish_stream, cuStreamSynchronize)          \
  X(allocate, cuMemAlloc)                        \
  X(free, cuMemFree)                             \
  X(copy, cuMemcpyAsync)                         \
  X(set_bytes, cuMemsetD8Async)                  \
  X(get_current, cuCtxGetCurrent)                \
  X(push, cuCtxPushCurrent)                      \
  X(pop, cuCtxPopCurrent)                        \
  X(exchange, cuThreadExchangeStreamCaptureMode) \
  X(is_capturing, cuStreamIsCapturing)           \
  X(create_event, cuEventCreate)                 \
  X(record, cuEventRecord)                       \
  X(query, cuEventQuery)                         \
  X(wait_event, cuStreamWaitEvent)

bool shares_gpu() {
  const char* const text = std::getenv("HVD_SHARE_GPU");
  return text != nullptr && std::string(text) == "1";
}

void check(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": error " + std::to_string(code) +
                           " of the driver");
}

void be_a_host_of_ones_own() {
  const char* const rank = std::getenv("HVD_RANK");
  if (!shares_gpu() || rank == nullptr) return;
  ::setenv("NCCL_HOSTID", (std::string("rank-") + rank).c_str(), 0);  // before there are threads
}

}  // namespace

struct RankGpu::Driver {
#define HVD_TEST_FIELD(field, function) decltype(&::function) field = nullptr;
  HVD_TEST_DRIVER(HVD_TEST_FIELD)
#undef HVD_TEST_FIELD

  /// What is missing; "": nothing is.
  std::string load() {
    const char* const named = std::getenv("HVD_CUDA_LIBRARY");
    void* const library = ::dlopen(named == nullptr ? "libcuda.so.1" : named, RTLD_NOW);
    if (library == nullptr) return ::dlerror();
#define HVD_TEST_FIND(field, function)                                                  \
  field = reinterpret_cast<decltype(field)>(::dlsym(library, HVD_TEST_NAME(function))); \
  if (field == nullptr) return "the driver has no " HVD_TEST_NAME(function);
    HVD_TEST_DRIVER(HVD_TEST_FIND)
#undef HVD_TEST_FIND
    return {};
  }
};

RankGpu::RankGpu() : driver_(std::make_unique<Driver>()) {}

// The stream and the context end with the process.
RankGpu::~RankGpu() = default;

std::unique_ptr<RankGpu> RankGpu::open(std::string& why) {
  std::unique_ptr<RankGpu> gpu(new RankGpu);
  Driver& driver = *gpu->driver_;
  why = driver.load();
  if (!why.empty()) return nullptr;
  int count = 0;
  if (const CUresult code = driver.initialise(0); code != CUDA_SUCCESS) {
    why = "no GPU: error " + std::to_string(code) + " of cuInit";
    return nullptr;
  }
  check(driver.count(&count), "counting GPUs");
  if (!shares_gpu()) gpu->number_ = hvd_local_rank();
  if (gpu->number_ >= count) {
    why = "there are " + std::to_string(count) + " GPUs, and this is local rank " +
          std::to_string(gpu->number_) + "; HVD_SHARE_GPU=1 lets ranks share one";
    return nullptr;
  }
  std::array<char, 256> name{};
  check(driver.device_name(name.data(), static_cast<int>(name.size()), gpu->number_), "its name");
  gpu->name_ = name.data();
  CUcontext context = nullptr;
  check(driver.retain(&context, gpu->number_), "its context");
  check(driver.set_current(context), "its context");
  check(driver.create_stream(&gpu->stream_, CU_STREAM_NON_BLOCKING), "a stream");
  return gpu;
}

void* RankGpu::allocate(std::size_t bytes) {
  CUdeviceptr memory = 0;
  check(driver_->allocate(&memory, std::max<std::size_t>(bytes, 1)), "allocating");
  return reinterpret_cast<void*>(memory);
}

void RankGpu::free(void* memory) {
  if (memory != nullptr) check(driver_->free(reinterpret_cast<CUdeviceptr>(memory)), "freeing");
}

void RankGpu::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(driver_->copy(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes,
                      stream_),
        "copying");
}

void RankGpu::put(void* device, const void* host, std::size_t bytes) {
  copy(device, host, bytes);
  finish();
}

void RankGpu::get(void* host, const void* device, std::size_t bytes) {
  copy(host, device, bytes);
  finish();
}

std::vector<std::pair<std::string, std::function<void()>>> RankGpu::calls() {
  Driver& driver = *driver_;
  CUevent event = nullptr;
  CUstream other = nullptr;
  CUcontext context = nullptr;
  check(driver.create_event(&event, CU_EVENT_DISABLE_TIMING), "an event");
  check(driver.create_stream(&other, CU_STREAM_NON_BLOCKING), "a stream");
  check(driver.get_current(&context), "the context");
  const auto memory = reinterpret_cast<CUdeviceptr>(allocate(4096));
  CUstream const stream = stream_;
  return {
      {"cuCtxGetCurrent",
       [&driver] {
         CUcontext current = nullptr;
         driver.get_current(&current);
       }},
      {"cuStreamIsCapturing",
       [&driver, stream] {
         CUstreamCaptureStatus status{};
         driver.is_capturing(stream, &status);
       }},
      {"cuCtxPushCurrent, cuCtxPopCurrent",
       [&driver, context] {
         CUcontext left = nullptr;
         driver.push(context);
         driver.pop(&left);
       }},
      {"cuThreadExchangeStreamCaptureMode, twice",
       [&driver] {
         CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
         driver.exchange(&mode);
         driver.exchange(&mode);
       }},
      {"cuEventRecord", [&driver, event, stream] { driver.record(event, stream); }},
      {"cuEventQuery", [&driver, event] { driver.query(event); }},
      {"cuStreamWaitEvent, of a stream's own event",
       [&driver, event, stream] { driver.wait_event(stream, event, 0); }},
      {"cuStreamWaitEvent, of another stream's",
       [&driver, event, other] { driver.wait_event(other, event, 0); }},
      {"cuEventRecord and cuStreamWaitEvent across",
       [&driver, event, stream, other] {
         driver.record(event, stream);
         driver.wait_event(other, event, 0);
       }},
      {"cuMemsetD8Async", [&driver, memory, stream] { driver.set_bytes(memory, 0, 4096, stream); }},
  };
}

void RankGpu::finish() { check(driver_->finish_stream(stream_), "waiting for the stream"); }

int run_on_gpu(const std::function<int(const hvd::Context& job, RankGpu& gpu)>& work) {
  try {
    be_a_host_of_ones_own();
    const hvd::Context job;
    std::string why;
    const std::unique_ptr<RankGpu> gpu = RankGpu::open(why);
    if (gpu != nullptr) return work(job, *gpu);
    std::printf("skipped: rank %d: %s\n", job.rank(), why.c_str());
    return 77;
  } catch (const std::exception& failure) {
    std::printf("FAILED %s\n", failure.what());
    std::fflush(stdout);
    std::_Exit(9);  // another rank may never leave the job
  }
}

}  // namespace hvd_test
