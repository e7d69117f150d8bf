// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <string>

#include "doubles/nccl/communicator.h"
#include "doubles/nccl/group.h"

namespace double_nccl {

/// The scope of a call on a communicator: counts it, and finds what is wrong with making it now.
class ApiCall {
 public:
  ApiCall(const char* function, ncclComm_t handle);
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;
  ~ApiCall() {
    if (is_inside_) communicator_->end_call();
  }

  /// ncclSuccess: go on.
  ncclResult_t error() const { return error_; }
  /// Also refuses while the last call is in progress.
  ncclResult_t ready();
  const CommunicatorPtr& communicator() const { return communicator_; }
  /// A complaint about the arguments.
  ncclResult_t refuse(const std::string& why, ncclResult_t code = ncclInvalidArgument);

 private:
  const char* function_;
  CommunicatorPtr communicator_;
  bool is_inside_ = false;
  ncclResult_t error_ = ncclSuccess;
};

}  // namespace double_nccl
