// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <memory>

namespace hvd_test {

/// A communicator of all ranks of the job, by NCCL's own interface, from the library that libhvd
/// loads as well (HVD_NCCL_LIBRARY, libnccl.so.2). What fails throws std::runtime_error. Made and
/// destroyed by all ranks, with a GPU current. One thread only.
class PlainNccl {
 public:
  /// `blocks`: a call returns when NCCL has taken it up; else when that is_settled().
  explicit PlainNccl(bool blocks = true);
  PlainNccl(const PlainNccl&) = delete;
  PlainNccl& operator=(const PlainNccl&) = delete;
  ~PlainNccl();

  void allreduce(const float* input, float* output, std::size_t count, CUstream stream);
  bool is_settled() const;

 private:
  struct Calls;
  void check(ncclResult_t result) const;
  std::unique_ptr<Calls> calls_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace hvd_test
