// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_communicator.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "collective/float8_bits.h"
#include "collective/half_bits.h"
#include "device/timed_call.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kEndTime{5};
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

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  if (end(nccl_.calls().comm_destroy, Deadline::after(kEndTime))) return;
  // Not to be aborted: the call is still at work on it, and frees it when it comes to an end.
  log(LogLevel::kWarning, "nccl", "a communicator has not ended within {} s and is left to itself",
      kEndTime.count());
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

bool NcclCommunicator::abort(Deadline deadline) {
  return comm_ == nullptr || end(nccl_.calls().comm_abort, deadline);
}

/// Both ways to end it block for as long as they like: a thread of their own does.
bool NcclCommunicator::end(decltype(&ncclCommAbort) how, Deadline deadline) {
  factors_.clear();
  const auto call = [how, comm = std::exchange(comm_, nullptr), gpu = &gpu_] {
    const CurrentGpu current(*gpu);
    how(comm);
  };
  return ends_in_time(call, deadline);
}

}  // namespace hvd
