// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hvd/gpu.hpp"
#include "hvd/hvd.hpp"

namespace hvd_test {

/// The GPU of a rank and a stream of it, as a framework has them: by the driver that libhvd loads
/// as well (HVD_CUDA_LIBRARY, libcuda.so.1), so that the double and a real one serve alike. What
/// fails throws std::runtime_error. One thread only.
class RankGpu {
 public:
  /// GPU 0 with HVD_SHARE_GPU=1, else that of the local rank. Null: there is none; `why` says so.
  static std::unique_ptr<RankGpu> open(std::string& why);
  RankGpu(const RankGpu&) = delete;
  RankGpu& operator=(const RankGpu&) = delete;
  ~RankGpu();

  const std::string& name() const { return name_; }
  CUstream stream() const { return stream_; }
  hvd::GpuStream place() const { return {{HVD_CUDA, number_}, stream_}; }

  void* allocate(std::size_t bytes);
  void free(void* memory);
  /// Between host and device, in the order of the stream; put() and get() wait for it.
  void copy(void* to, const void* from, std::size_t bytes);
  void put(void* device, const void* host, std::size_t bytes);
  void get(void* host, const void* device, std::size_t bytes);
  /// Calls of the driver that cost the host time, each with what it is.
  std::vector<std::pair<std::string, std::function<void()>>> calls();
  /// Until the stream is empty.
  void finish();

 private:
  struct Driver;
  RankGpu();
  std::unique_ptr<Driver> driver_;
  std::string name_;
  int number_ = 0;
  CUstream stream_ = nullptr;
};

/// Joins the job, takes this rank's GPU and runs `work`; for main() to return. Exit code: that of
/// `work`; 77, and a line "skipped: ...", where there is no GPU; 9, and "FAILED ...", where it
/// throws. Where ranks share a GPU each gets an NCCL_HOSTID that no other has, if it has none.
int run_on_gpu(const std::function<int(const hvd::Context& job, RankGpu& gpu)>& work);

}  // namespace hvd_test
