// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_communicator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"
#include "collective/float8_bits.h"
#include "collective/half_bits.h"
#include "device/timed_call.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kEndTime{5};
constexpr std::chrono::microseconds kLongestPause{2000};  // between two looks at an end
constexpr std::size_t kMaxFactors = 64;

ncclRedOp_t plain_fold(NcclFold fold) {
  switch (fold) {
    case NcclFold::kProduct:
      return ncclProd;
    case NcclFold::kMin:
      return ncclMin;
    case NcclFold::kMax:
      return ncclMax;
    default:
      return ncclSum;
  }
}

/// A number in the element type, as NCCL takes it.
std::array<std::byte, sizeof(double)> scalar_of(double value, DataType dtype) {
  std::array<std::byte, sizeof(double)> scalar{};
  const auto put = [&](auto number) { std::memcpy(scalar.data(), &number, sizeof number); };
  const auto narrow = static_cast<float>(value);
  if (dtype == DataType::kFloat64) {
    put(value);
  } else if (dtype == DataType::kFloat16) {
    put(float_to_float16(narrow));
  } else if (dtype == DataType::kBfloat16) {
    put(float_to_bfloat16(narrow));
  } else if (dtype == DataType::kFloat8E4m3) {
    put(float_to_float8<Float8E4m3>(narrow));
  } else if (dtype == DataType::kFloat8E5m2) {
    put(float_to_float8<Float8E5m2>(narrow));
  } else {
    put(narrow);
  }
  return scalar;
}

}  // namespace

Result<ncclDataType_t> nccl_data_type(DataType dtype) {
  switch (dtype) {
    case DataType::kUint8:
      return ncclUint8;
    case DataType::kInt8:
      return ncclInt8;
    case DataType::kInt32:
      return ncclInt32;
    case DataType::kInt64:
      return ncclInt64;
    case DataType::kUint32:
      return ncclUint32;
    case DataType::kUint64:
      return ncclUint64;
    case DataType::kFloat16:
      return ncclFloat16;
    case DataType::kBfloat16:
      return ncclBfloat16;
    case DataType::kFloat32:
      return ncclFloat32;
    case DataType::kFloat64:
      return ncclFloat64;
    case DataType::kFloat8E4m3:
      return kNcclFloat8E4m3;
    case DataType::kFloat8E5m2:
      return kNcclFloat8E5m2;
    default:
      return error(Code::kInternal, "{} has no {}", kNcclTitle, name_of(dtype));
  }
}

/// NCCL's order of an end: finalize, which waits for the other ranks, then destroy, which does not.
void NcclCommunicator::finish() {
  if (comm_ == nullptr) return;
  factors_.clear();
  const Status flushed = flush(Deadline::after(kEndTime));
  const auto how = flushed.is_ok() ? nccl_.calls().comm_destroy : nccl_.calls().comm_abort;
  if (!flushed.is_ok()) {
    log(LogLevel::kWarning, "nccl", "a communicator is aborted: {}", flushed.message());
  }
  const auto call = [how, comm = std::exchange(comm_, nullptr), gpu = &gpu_] {
    const CurrentGpu current(*gpu);
    how(comm);
  };
  if (ends_in_time(call, Deadline::after(kDevicePatience))) return;
  log(LogLevel::kWarning, "nccl", "the end of a communicator takes longer than {} s, and goes on",
      kDevicePatience.count());
}

/// What is under way everywhere ends. NCCL tells of it to those who ask, and in no other way.
Status NcclCommunicator::flush(Deadline deadline) {
  bool is_begun = false;
  Mutex mutex;
  CondVar nobody;  // NCCL rings no bell
  const Lock lock(mutex);
  for (std::chrono::microseconds pause{50};; pause = std::min(pause * 2, kLongestPause)) {
    HVD_TRY_ASSIGN(const bool has_settled, is_settled());
    if (has_settled && is_begun) return Status::ok();
    if (has_settled) {
      HVD_TRY(check(nccl_.calls().comm_finalize(comm_), "cannot end a communicator"));
      is_begun = true;
      continue;
    }
    if (deadline.has_passed()) {
      return error(Code::kTimeout, "the ranks have not ended it together within {} s",
                   kEndTime.count());
    }
    static_cast<void>(nobody.wait_until(mutex, Deadline::after(pause)));
  }
}

Status NcclCommunicator::begin(const ncclUniqueId& id, int rank, int size) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return check(nccl_.calls().comm_init_rank_config(&comm_, size, id, rank, &config),
               "cannot make a communicator");
}

Result<bool> NcclCommunicator::is_settled() {
  ncclResult_t state = ncclSuccess;
  HVD_TRY(check(nccl_.calls().comm_get_async_error(comm_, &state), "cannot ask for its state"));
  HVD_TRY(check(state, phase_ == NcclPhase::kConnecting ? "cannot connect the ranks" : "failed"));
  if (state == ncclInProgress) return false;
  phase_ = NcclPhase::kRunning;
  return true;
}

Status NcclCommunicator::check(ncclResult_t result, std::string_view what) const {
  if (result == ncclSuccess || result == ncclInProgress) return Status::ok();
  const char* const text = nccl_.calls().get_error_string(result);
  const char* const last = nccl_.calls().get_last_error(comm_);
  const std::string_view detail = last == nullptr ? std::string_view() : last;
  return error(code_of(result, phase_), "{}: {}: {}{}{}{}{}", kNcclTitle, what, text,
               detail.empty() ? "" : " (", detail, detail.empty() ? "" : ")",
               hint_of(result, phase_, shm_room()));
}

Status NcclCommunicator::begin_group() {
  return check(nccl_.calls().group_start(), "cannot begin a group");
}
Status NcclCommunicator::end_group() {
  return check(nccl_.calls().group_end(), "cannot launch a group");
}

Result<ncclRedOp_t> NcclCommunicator::fold_of(const NcclStep& step, double premul) {
  if (step.fold != NcclFold::kPreMulSum) return plain_fold(step.fold);
  for (const Factor& factor : factors_) {
    if (factor.value == premul && factor.dtype == step.dtype) return factor.fold;
  }
  if (factors_.size() == kMaxFactors) {
    nccl_.calls().red_op_destroy(factors_.front().fold, comm_);
    factors_.erase(factors_.begin());
  }
  HVD_TRY_ASSIGN(const ncclDataType_t dtype, nccl_data_type(step.dtype));
  auto scalar = scalar_of(premul, step.dtype);
  ncclRedOp_t fold = ncclSum;
  HVD_TRY(check(nccl_.calls().red_op_create_pre_mul_sum(&fold, scalar.data(), dtype,
                                                        ncclScalarHostImmediate, comm_),
                "cannot make a scaled sum"));
  factors_.push_back({premul, step.dtype, fold});
  return fold;
}

Status NcclCommunicator::add(const NcclStep& step, const NcclOperands& operands, double premul,
                             StreamHandle stream) {
  HVD_TRY_ASSIGN(const ncclDataType_t dtype, nccl_data_type(step.dtype));
  HVD_TRY_ASSIGN(const ncclRedOp_t fold, fold_of(step, premul));
  const auto on = static_cast<NcclStream>(stream);
  const NcclCalls& calls = nccl_.calls();
  const auto [from, to] = operands;
  switch (step.verb) {
    case NcclVerb::kAllReduce:
      return check(calls.all_reduce(from, to, step.count, dtype, fold, comm_, on), "allreduce");
    case NcclVerb::kReduce:
      return check(calls.reduce(from, to, step.count, dtype, fold, step.peer, comm_, on), "reduce");
    case NcclVerb::kReduceScatter:
      return check(calls.reduce_scatter(from, to, step.count, dtype, fold, comm_, on),
                   "reducescatter");
    case NcclVerb::kAllGather:
      return check(calls.all_gather(from, to, step.count, dtype, comm_, on), "allgather");
    case NcclVerb::kBroadcast:
      return check(calls.broadcast(from, to, step.count, dtype, step.peer, comm_, on), "broadcast");
    case NcclVerb::kSend:
      return check(calls.send(from, step.count, dtype, step.peer, comm_, on), "send");
    case NcclVerb::kRecv:
      return check(calls.recv(to, step.count, dtype, step.peer, comm_, on), "receive");
  }
  return Status::ok();
}

void NcclCommunicator::abort() {
  factors_.clear();
  if (comm_ != nullptr) nccl_.calls().comm_abort(std::exchange(comm_, nullptr));
}

}  // namespace hvd
