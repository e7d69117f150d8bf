// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_plan.h"

#include <algorithm>
#include <cmath>

#include "backends/nccl/nccl_adasum.h"
#include "base/check.h"
#include "collective/reduce.h"
#include "collective/wire_cast.h"

namespace hvd {
namespace {

using Where = NcclPlace::Where;

bool is_complex(DataType dtype) {
  return dtype == DataType::kComplex64 || dtype == DataType::kComplex128;
}
bool is_half(DataType dtype) { return dtype == DataType::kFloat16 || dtype == DataType::kBfloat16; }
bool is_integer(DataType dtype) {
  return !is_floating(dtype) && !is_complex(dtype) && dtype != DataType::kBool;
}

/// A bool is a byte of 0 or 1, and a complex number is two floats.
DataType nccl_type_of(DataType dtype) {
  switch (dtype) {
    case DataType::kBool:
      return DataType::kUint8;
    case DataType::kComplex64:
      return DataType::kFloat32;
    case DataType::kComplex128:
      return DataType::kFloat64;
    default:
      return dtype;
  }
}

NcclFold fold_of(ReduceOp op, DataType dtype) {
  if (dtype == DataType::kBool) {
    const bool any = op == ReduceOp::kSum || op == ReduceOp::kMax || op == ReduceOp::kBitOr;
    return any ? NcclFold::kMax : NcclFold::kMin;
  }
  switch (op) {
    case ReduceOp::kMin:
      return NcclFold::kMin;
    case ReduceOp::kMax:
      return NcclFold::kMax;
    case ReduceOp::kProduct:
      return NcclFold::kProduct;
    default:
      return NcclFold::kSum;
  }
}

ReduceOp identity_of(NcclFold fold) {
  switch (fold) {
    case NcclFold::kMin:
      return ReduceOp::kMin;
    case NcclFold::kMax:
      return ReduceOp::kMax;
    case NcclFold::kProduct:
      return ReduceOp::kProduct;
    default:
      return ReduceOp::kSum;
  }
}

/// NCCL takes the factor in the type of the elements: rounded to a half type it would be off by up
/// to 0.4%, in every sum alike.
bool is_exact(double factor, DataType dtype) {
  if (!is_half(dtype)) return true;
  int exponent = 0;
  const double fraction = std::frexp(factor, &exponent);
  const bool bfloat = dtype == DataType::kBfloat16;
  const double digits = std::ldexp(fraction, bfloat ? 8 : 11);
  const int lowest = bfloat ? -125 : -13;
  const int highest = bfloat ? 128 : 16;
  return digits == std::trunc(digits) && exponent >= lowest && exponent <= highest;
}

/// How the elements of a reduction reach NCCL and come back.
struct Path {
  DataType element = DataType::kFloat32;  ///< Of the tensors.
  DataType wire = DataType::kFloat32;     ///< Of what NCCL is given.
  std::size_t units = 1;                  ///< NCCL's elements in one of the tensor's.
  NcclFold fold = NcclFold::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  int divisor = 1;
  bool must_pack = false;
  // Where a tensor is not packed:
  double premul = 1.0;
  double after = 1.0;

  /// What floats are multiplied with behind the fold.
  double last_factor() const { return postscale / divisor; }
};

Path path_of(const Allreduce& allreduce, DataType dtype, int size) {
  const Reduction reduction = Reduction::of(allreduce, dtype, size);
  const WireCast cast = WireCast::of(allreduce, dtype);
  Path path{.element = dtype,
            .wire = nccl_type_of(cast.wire),
            .units = is_complex(dtype) ? std::size_t{2} : 1,
            .fold = fold_of(reduction.op, dtype),
            .prescale = allreduce.prescale,
            .postscale = allreduce.postscale,
            .divisor = reduction.divisor};
  if (is_integer(dtype)) {
    path.must_pack = path.prescale != 1.0;
    return path;
  }
  if (cast.is_cast() || path.fold != NcclFold::kSum) {
    path.must_pack = cast.is_cast() || path.prescale != 1.0;
    path.after = path.last_factor();
    return path;
  }
  const double factor = path.prescale * path.last_factor();
  if (is_exact(factor, dtype)) {
    path.premul = factor;
  } else {
    path.must_pack = path.prescale != 1.0;  // it may be what keeps a sum of halves in range
    path.after = path.last_factor();
  }
  return path;
}

/// Builds the plan of a reducing operation.
class ReductionPlan {
 public:
  ReductionPlan(const Batch& batch, const Communicator& communicator,
                const NcclPlanOptions& options)
      : batch_(batch),
        rank_(static_cast<std::size_t>(communicator.rank)),
        size_(static_cast<std::size_t>(communicator.size)),
        path_(path_of(reduction_of(batch.operation).value_or(Allreduce{}), batch.dtype,
                      communicator.size)) {
    is_packed_ = choose_packed(options);
    plan_.pack = {path_.element, cast_wire(), is_integer(path_.element) ? 1.0 : path_.prescale};
    plan_.unpack = {path_.element, cast_wire(),
                    is_integer(path_.element) ? 1.0 : path_.last_factor()};
    if (is_integer(path_.element)) plan_.integer_prescale = path_.prescale;
    plan_.premul = path_.premul;
  }

  NcclPlan make() {
    place_in_bucket();
    if (std::holds_alternative<Reducescatter>(batch_.operation)) {
      scatter();
    } else {
      reduce_bucket();
      for (std::size_t i = 0; i < batch_.segments.size(); ++i) {
        if (!is_packed_[i]) reduce_tensor(i);
      }
    }
    if (!plan_.scaled.empty()) set_scale();
    if (batch_.is_neutral) become_neutral();
    return std::move(plan_);
  }

 private:
  /// The type in the bucket, as the pack kernels name it: complex numbers stay complex.
  DataType cast_wire() const { return path_.units == 2 ? path_.element : bucket_type(); }
  DataType bucket_type() const {
    return path_.element == DataType::kBool ? DataType::kBool : path_.wire;
  }
  bool is_scatter() const { return std::holds_alternative<Reducescatter>(batch_.operation); }
  /// Allreduce, or the root of a reduce.
  bool has_result() const {
    const auto root = root_of(batch_.operation);
    return !root || static_cast<std::size_t>(*root) == rank_;
  }

  std::vector<bool> choose_packed(const NcclPlanOptions& options) const {
    std::vector<bool> packed(batch_.segments.size(), path_.must_pack);
    if (path_.must_pack || is_scatter()) return packed;
    std::size_t small = 0;
    for (std::size_t i = 0; i < packed.size(); ++i) {
      const std::size_t bytes = batch_.segments[i].count * size_of(batch_.dtype);
      packed[i] = bytes > 0 && bytes <= options.pack_bytes;
      if (packed[i]) ++small;
    }
    // One alone needs no launch before and behind its call.
    if (small < 2) packed.assign(packed.size(), false);
    return packed;
  }

  void place_in_bucket() {
    for (std::size_t i = 0; i < batch_.segments.size(); ++i) {
      const std::size_t count = batch_.segments[i].count;
      offsets_.push_back(plan_.bucket_bytes);
      if (!is_packed_[i] || count == 0) continue;
      plan_.packed.push_back({i, plan_.bucket_bytes, count});
      plan_.bucket_bytes =
          next_slot(plan_.bucket_bytes + count * path_.units * size_of(path_.wire));
    }
  }

  NcclStep step_of(NcclVerb verb, std::size_t count, NcclFold fold) const {
    const auto root = root_of(batch_.operation);
    return {.verb = verb,
            .dtype = path_.wire,
            .fold = fold,
            .count = count * path_.units,
            .peer = root.value_or(0),
            .from = {},
            .to = {}};
  }
  NcclVerb verb() const {
    return root_of(batch_.operation) ? NcclVerb::kReduce : NcclVerb::kAllReduce;
  }
  /// Of tensors that go as they are.
  NcclFold direct_fold() const { return path_.premul == 1.0 ? path_.fold : NcclFold::kPreMulSum; }

  void reduce_bucket() {
    if (plan_.packed.empty()) return;
    NcclStep step = step_of(verb(), 0, path_.fold);
    step.count = plan_.bucket_bytes / size_of(path_.wire);
    step.from.where = step.to.where = Where::kBucket;
    plan_.steps.push_back(step);
    if (!has_result()) return;
    plan_.unpacked = plan_.packed;
    if (is_integer(path_.element)) plan_.scaled = plan_.packed;
  }

  void reduce_tensor(std::size_t i) {
    const std::size_t count = batch_.segments[i].count;
    if (count == 0) return;
    NcclStep step = step_of(verb(), count, direct_fold());
    step.from = {Where::kInput, i, 0};
    step.to = has_result() ? NcclPlace{Where::kOutput, i, 0} : step.from;
    plan_.steps.push_back(step);
    if (has_result()) plan_.scaled.push_back({i, 0, count});
  }

  void scatter() {
    for (std::size_t i = 0; i < batch_.segments.size(); ++i) {
      const Segment& segment = batch_.segments[i];
      const std::size_t rows = segment.row_count == 0 ? 0 : segment.count / segment.row_count;
      if (rows == 0) continue;
      const auto begin = [&](std::size_t rank) {
        return first_row_of(rows, size_, rank) * segment.row_count;
      };
      const std::size_t mine = begin(rank_ + 1) - begin(rank_);
      if (mine > 0) plan_.scaled.push_back({i, 0, mine});
      const NcclPlace whole = is_packed_[i] ? NcclPlace{Where::kBucket, i, offsets_[i]}
                                            : NcclPlace{Where::kInput, i, 0};
      const NcclFold fold = is_packed_[i] ? path_.fold : direct_fold();
      if (rows % size_ == 0) {
        NcclStep step = step_of(NcclVerb::kReduceScatter, mine, fold);
        step.from = whole;
        step.to = {Where::kOutput, i, 0};
        plan_.steps.push_back(step);
        continue;
      }
      for (std::size_t rank = 0; rank < size_; ++rank) {
        const std::size_t count = begin(rank + 1) - begin(rank);
        if (count == 0) continue;
        NcclStep step = step_of(NcclVerb::kReduce, count, fold);
        step.peer = static_cast<int>(rank);
        step.from = whole;
        step.from.offset += begin(rank) * path_.units * size_of(path_.wire);
        step.to = rank == rank_ ? NcclPlace{Where::kOutput, i, 0} : step.from;
        plan_.steps.push_back(step);
      }
    }
  }

  void set_scale() {
    if (is_integer(path_.element)) {
      plan_.scale = path_.postscale;
      plan_.divisor = path_.divisor;
    } else {
      plan_.scale = is_scatter() && path_.must_pack ? path_.last_factor() : path_.after;
    }
    if (plan_.scale == 1.0 && plan_.divisor == 1) plan_.scaled.clear();
  }

  /// The same calls, on memory that holds nothing but identities. The bucket is as large as that of
  /// the others: see NcclBucket.
  void become_neutral() {
    if (plan_.bucket_bytes > 0) {
      plan_.filled.push_back({0, 0, plan_.bucket_bytes / size_of(path_.wire)});
    }
    for (NcclStep& step : plan_.steps) {
      if (step.from.where == Where::kBucket) continue;
      plan_.filled_spare.push_back({0, plan_.spare_bytes, step.count});
      step.from = step.to = {Where::kSpare, 0, plan_.spare_bytes};
      plan_.spare_bytes = next_slot(plan_.spare_bytes + step.count * size_of(path_.wire));
    }
    plan_.fill_dtype = path_.wire;
    plan_.fill_op = identity_of(path_.fold);
    plan_.packed.clear();
    plan_.unpacked.clear();
    plan_.scaled.clear();
    plan_.integer_prescale = 1.0;
  }

  const Batch& batch_;
  std::size_t rank_;
  std::size_t size_;
  Path path_;
  std::vector<bool> is_packed_;
  std::vector<std::size_t> offsets_;  // into the bucket, by segment
  NcclPlan plan_;
};

NcclStep move(NcclVerb verb, std::size_t bytes, int peer) {
  return {.verb = verb,
          .dtype = DataType::kUint8,
          .fold = NcclFold::kSum,
          .count = bytes,
          .peer = peer,
          .from = {},
          .to = {}};
}

NcclPlan plan_broadcast(const Batch& batch, const Communicator& communicator, int root) {
  NcclPlan plan;
  for (std::size_t i = 0; i < batch.segments.size(); ++i) {
    const std::size_t bytes = batch.segments[i].count * size_of(batch.dtype);
    if (bytes == 0) continue;
    NcclStep step = move(NcclVerb::kBroadcast, bytes, root);
    step.to = {Where::kOutput, i, 0};
    step.from = communicator.rank == root ? NcclPlace{Where::kInput, i, 0} : step.to;
    plan.steps.push_back(step);
  }
  return plan;
}

NcclPlan plan_allgather(const MovingCounts& counts, std::size_t element, std::size_t mine) {
  NcclPlan plan;
  for (std::size_t i = 0; i < counts.segments(); ++i) {
    bool equal = true;
    for (std::size_t rank = 1; rank < counts.size(); ++rank) {
      equal = equal && counts.sent(rank, i) == counts.sent(0, i);
    }
    std::size_t offset = 0;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      const std::size_t bytes = counts.sent(rank, i) * element;
      if (bytes == 0) continue;
      NcclStep step =
          move(equal ? NcclVerb::kAllGather : NcclVerb::kBroadcast, bytes, static_cast<int>(rank));
      step.to = {Where::kOutput, i, offset};
      step.from = equal || rank == mine ? NcclPlace{Where::kInput, i, 0} : step.to;
      plan.steps.push_back(step);
      if (equal) break;
      offset += bytes;
    }
  }
  return plan;
}

/// Alltoall, gather and scatter.
NcclPlan plan_exchange(const MovingCounts& counts, std::size_t element, std::size_t mine) {
  NcclPlan plan;
  for (std::size_t i = 0; i < counts.segments(); ++i) {
    std::size_t offset = 0;
    for (std::size_t peer = 0; peer < counts.size(); ++peer) {
      const std::size_t out = counts.at(mine, i, peer) * element;
      const std::size_t in = counts.at(peer, i, mine) * element;
      if (out > 0) {
        NcclStep step = move(NcclVerb::kSend, out, static_cast<int>(peer));
        step.from = {Where::kInput, i, counts.sent_before(mine, i, peer) * element};
        plan.steps.push_back(step);
      }
      if (in > 0) {
        NcclStep step = move(NcclVerb::kRecv, in, static_cast<int>(peer));
        step.to = {Where::kOutput, i, offset};
        plan.steps.push_back(step);
      }
      offset += in;
    }
  }
  return plan;
}

}  // namespace

Status check_nccl_operation(const Operation& operation, DataType dtype) {
  if (!has_tensors(operation)) {
    return error(Code::kUnsupported, "NCCL has no {}", kind_name(operation));
  }
  HVD_TRY(check_reduction(operation, dtype));
  const auto reduction = reduction_of(operation);
  if (!reduction) return Status::ok();
  const auto lacks = [&](std::string_view what) {
    return error(Code::kUnsupported, "NCCL has no {} of {}{}", describe(operation), name_of(dtype),
                 what);
  };
  switch (reduction->op) {
    case ReduceOp::kBitXor:
      return lacks("");
    case ReduceOp::kBitAnd:
    case ReduceOp::kBitOr:
      if (dtype != DataType::kBool) return lacks("");
      break;
    case ReduceOp::kProduct:
      if (is_complex(dtype)) return lacks("");
      break;
    default:
      break;
  }
  if (dtype == DataType::kInt16 || dtype == DataType::kUint16) {
    return lacks(": it knows integers of 8, 32 and 64 bits");
  }
  return Status::ok();
}

bool needs_counts(const Operation& operation) { return has_free_rows(operation); }

NcclPlan plan_nccl(const Batch& batch, const Communicator& communicator, const MovingCounts* counts,
                   const NcclPlanOptions& options) {
  if (const auto reduction = reduction_of(batch.operation)) {
    if (reduction->op == ReduceOp::kAdasum) return plan_nccl_adasum(batch, communicator, options);
    return ReductionPlan(batch, communicator, options).make();
  }
  if (const auto* broadcast = std::get_if<Broadcast>(&batch.operation)) {
    return plan_broadcast(batch, communicator, broadcast->root);
  }
  HVD_CHECK(counts != nullptr);
  const auto mine = static_cast<std::size_t>(communicator.rank);
  const std::size_t element = size_of(batch.dtype);
  if (counts->is_shared()) return plan_allgather(*counts, element, mine);
  return plan_exchange(*counts, element, mine);
}

}  // namespace hvd
