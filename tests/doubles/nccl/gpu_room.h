// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace double_nccl {

/// Room on a GPU for one operation, from its begin to its end. There is always room, but where
/// double_nccl_one_at_a_time() allows one operation: another then waits until that one has ended on
/// all its ranks, as a kernel that does not fit beside others. Of the GPUs of this process.
class GpuRoom {
 public:
  /// Waits for room, until `gives_up`.
  GpuRoom(std::string gpu, const std::function<bool()>& gives_up);
  GpuRoom(const GpuRoom&) = delete;
  GpuRoom& operator=(const GpuRoom&) = delete;
  ~GpuRoom();

  /// False: it was given up.
  bool is_there() const { return is_there_; }

 private:
  const std::string gpu_;
  bool is_limited_ = false;
  bool is_there_ = false;
};

}  // namespace double_nccl
