// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/api_call.h"

namespace double_nccl {

ApiCall::ApiCall(const char* function, ncclComm_t handle)
    : function_(function), communicator_(Handles::get().find(handle)) {
  if (communicator_ == nullptr) {
    error_ = refuse("there is no such communicator, or no more");
    return;
  }
  if (const auto failure = enter(function, communicator_->rank())) {
    error_ = Group::of_this_thread().fail(*failure);
    return;
  }
  is_inside_ = communicator_->begin_call();
  if (!is_inside_) error_ = refuse("two threads call on one communicator", ncclInvalidUsage);
}

ncclResult_t ApiCall::ready() {
  if (error_ != ncclSuccess) return error_;
  if (communicator_->is_finalized()) return refuse("the communicator is finalized");
  const ncclResult_t state = communicator_->state();
  if (state == ncclInProgress) {
    return refuse("before the previous call on the communicator has come to its end");
  }
  return state == ncclSuccess ? state : Group::of_this_thread().fail(state);
}

ncclResult_t ApiCall::refuse(const std::string& why, ncclResult_t code) {
  complain(std::string(function_) + ": " + why);
  return Group::of_this_thread().fail(code);
}

}  // namespace double_nccl
