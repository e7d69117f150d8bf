// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

/// As little of the driver as the NCCL double needs: a stream is a thread that runs host functions,
/// or a list of them while it is being captured. Thread-safe.
struct CUstream_st {
 public:
  using Work = std::pair<CUhostFn, void*>;

  CUstream_st();
  ~CUstream_st();

  void put(Work work);
  /// Waits for what has been put so far; false: that took more than `timeout`.
  bool wait(std::chrono::milliseconds timeout = std::chrono::seconds(60));
  void begin_capture();
  std::vector<Work> end_capture();
  bool is_capturing();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::vector<Work> captured_;
  bool capturing_ = false;
  bool running_ = false;
  bool stop_ = false;
  std::thread thread_;
};

/// Of all GPUs: 90 for sm_90.
extern int architecture_of_gpus;
/// What cuCtxGetDevice says on this thread; -1: no GPU.
void use_gpu(int device);
