// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_reductions.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "collective/float8_bits.h"
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
/// to 0.4%, in every sum alike, and to 8 bits by up to 12%.
bool is_exact(double factor, DataType dtype) {
  const auto single = static_cast<float>(factor);
  if (dtype == DataType::kFloat8E4m3) {
    return float8_to_float<Float8E4m3>(float_to_float8<Float8E4m3>(single)) == factor;
  }
  if (dtype == DataType::kFloat8E5m2) {
    return float8_to_float<Float8E5m2>(float_to_float8<Float8E5m2>(single)) == factor;
  }
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

  /// What floats are multiplied by after the fold.
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
  if (is_float8(dtype)) {
    // Before the fold in any case: sums of several ranks may not fit.
    path.prescale = factor;
    path.postscale = 1.0;
    path.divisor = 1;
  }
  if (is_exact(factor, dtype)) {
    path.premul = factor;
  } else {
    path.must_pack = path.prescale != 1.0;  // it may be what keeps a sum of halves in range
    path.after = path.last_factor();
  }
  return path;
}

/// Which tensors go through the bucket, by segment.
std::vector<bool> choose_packed(const Batch& batch, const Path& path,
                                const NcclPlanOptions& options) {
  std::vector<bool> packed(batch.segments.size(), path.must_pack);
  if (path.must_pack || std::holds_alternative<Reducescatter>(batch.operation)) return packed;
  std::size_t small = 0;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const std::size_t bytes = batch.segments[i].count * size_of(batch.dtype);
    packed[i] = bytes > 0 && bytes <= options.pack_bytes;
    if (packed[i]) ++small;
  }
  // One alone needs no launch before and after its call.
  if (small < 2) packed.assign(packed.size(), false);
  return packed;
}

Path path_of(const Batch& batch, const Communicator& communicator) {
  return path_of(reduction_of(batch.operation).value_or(Allreduce{}), batch.dtype,
                 communicator.size);
}

/// Takes the first `count` elements off a tensor.
Segment take_off(Segment& tensor, std::size_t count, std::size_t element_bytes) {
  Segment taken = tensor;
  taken.count = count;
  tensor.count -= count;
  const std::size_t bytes = count * element_bytes;
  // A rank that has joined has no memory, and only a root has an output.
  if (tensor.input != nullptr) tensor.input = static_cast<const std::byte*>(tensor.input) + bytes;
  if (tensor.output != nullptr) tensor.output = static_cast<std::byte*>(tensor.output) + bytes;
  return taken;
}

/// Builds the plan of a reducing operation.
class ReductionPlan {
 public:
  ReductionPlan(const Batch& batch, const Communicator& communicator,
                const NcclPlanOptions& options)
      : batch_(batch),
        rank_(static_cast<std::size_t>(communicator.rank)),
        size_(static_cast<std::size_t>(communicator.size)),
        path_(path_of(batch, communicator)),
        is_packed_(choose_packed(batch, path_, options)) {
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
    if (batch_.gpu.is_neutral) become_neutral();
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

  /// An allreduce of a rank that has joined: the same calls, on memory that holds nothing but
  /// identities. The bucket is as large as that of the others: see NcclBucket.
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
  }

  const Batch& batch_;
  std::size_t rank_;
  std::size_t size_;
  Path path_;
  std::vector<bool> is_packed_;
  std::vector<std::size_t> offsets_;  // into the bucket, by segment
  NcclPlan plan_;
};

}  // namespace

NcclPlan plan_nccl_reduction(const Batch& batch, const Communicator& communicator,
                             const NcclPlanOptions& options) {
  return ReductionPlan(batch, communicator, options).make();
}

std::vector<std::vector<Segment>> cut_for_bucket(const Batch& batch,
                                                 const Communicator& communicator,
                                                 const NcclPlanOptions& options) {
  const auto reduction = reduction_of(batch.operation);
  if (!reduction || reduction->op == ReduceOp::kAdasum ||
      std::holds_alternative<Reducescatter>(batch.operation)) {
    return {batch.segments};
  }
  const Path path = path_of(batch, communicator);
  const std::vector<bool> is_packed = choose_packed(batch, path, options);
  const std::size_t width = path.units * size_of(path.wire);
  const std::size_t most = next_slot(options.part_bytes);
  std::vector<std::vector<Segment>> parts(1);
  std::size_t room = most;
  for (std::size_t i = 0; i < is_packed.size(); ++i) {
    Segment rest = batch.segments[i];
    while (is_packed[i] && rest.count * width > room) {
      if (room > 0) {
        parts.back().push_back(take_off(rest, room / width, size_of(batch.dtype)));
      }
      parts.emplace_back();
      room = most;
    }
    parts.back().push_back(rest);
    if (is_packed[i]) room -= next_slot(rest.count * width);
  }
  return parts;
}

}  // namespace hvd
