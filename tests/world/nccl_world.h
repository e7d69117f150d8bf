// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <string>

#include "doubles/cuda/double_cuda.h"
#include "doubles/nccl/double_nccl.h"
#include "world/gpu_world.h"

namespace hvd {

/// GpuWorld where NCCL comes first.
class NcclRanks : public GpuWorld {
 public:
  explicit NcclRanks(std::vector<int> node_sizes, const EngineOptions& options = quick_options())
      : GpuWorld(std::move(node_sizes), options) {}
};

/// Tests on the doubles of the driver and of NCCL: forgets what other tests ordered, and wants that
/// NCCL was used as it may be.
class NcclWorld : public testing::Test {
 protected:
  void SetUp() override {
    double_reset();
    double_nccl_reset();
  }
  void TearDown() override {
    EXPECT_EQ(double_nccl_complaints(), 0) << double_nccl_last_complaint();
    // Memory is freed on a thread of its own.
    for (const Deadline deadline = soon(); double_nccl_alive() != 0 && !deadline.has_passed();) {
      sched_yield();
    }
    EXPECT_EQ(double_nccl_alive(), 0) << "communicators, registrations or memory are left";
    double_reset();
    double_nccl_reset();
  }
  static int calls(const std::string& function) { return double_nccl_calls(function.c_str()); }
};

}  // namespace hvd
