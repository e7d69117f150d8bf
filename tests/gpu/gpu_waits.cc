// SPDX-License-Identifier: Apache-2.0
// The driver of GPUs, with its waiting functions counted: HVD_CUDA_LIBRARY=libgpu_waits.so. It
// needs libcuda.so.1, where whoever looks here for any other function finds it.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <map>
#include <mutex>

namespace {

struct Waits {
  std::mutex mutex;
  std::map<pid_t, unsigned long> by_thread;
};

/// Never destroyed: threads wait until the process ends.
Waits& waits() {
  static auto* const made = new Waits;
  return *made;
}

template <typename Function>
Function* counted(const char* name) {
  {
    const std::lock_guard lock(waits().mutex);
    ++waits().by_thread[::gettid()];
  }
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(::dlsym(driver, name));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) CUresult cuEventSynchronize(CUevent event) {
  return counted<CUresult(CUevent)>("cuEventSynchronize")(event);
}
__attribute__((visibility("default"))) CUresult cuStreamSynchronize(CUstream stream) {
  return counted<CUresult(CUstream)>("cuStreamSynchronize")(stream);
}
__attribute__((visibility("default"))) CUresult cuCtxSynchronize() {
  return counted<CUresult()>("cuCtxSynchronize")();
}

/// 0: how often this thread has waited; 1: all threads; 2: how many other threads have.
__attribute__((visibility("default"))) unsigned long gpu_waits(int what) {
  const std::lock_guard lock(waits().mutex);
  const pid_t me = ::gettid();
  unsigned long mine = 0;
  unsigned long all = 0;
  unsigned long others = 0;
  for (const auto& [thread, count] : waits().by_thread) {
    all += count;
    if (thread == me) mine = count;
    if (thread != me) ++others;
  }
  return what == 0 ? mine : what == 1 ? all : others;
}
}
