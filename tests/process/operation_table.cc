// SPDX-License-Identifier: Apache-2.0
#include "operation_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>

#include "element.h"
#include "operation_case.h"

namespace hvd_test {
namespace {

constexpr std::array<std::size_t, 5> kElementCounts = {0, 1, 4'099, (std::size_t{1} << 16) + 1,
                                                       std::size_t{1} << 20};
constexpr std::size_t kLarge = std::size_t{1} << 19;
constexpr int kTypes = 17;

using Vector = std::vector<double>;

/// Small whole numbers, different by rank and place; their sums and products are exact in each
/// type.
double value_at(hvd_dtype dtype, int rank, std::size_t i) {
  const std::size_t place = i + i / 1'009 + static_cast<std::size_t>(rank) * 3;
  const auto value = static_cast<int>(place * 7 % 5);
  if (dtype == HVD_BOOL) return value < 2 ? 1 : 0;
  return is_signed(dtype) ? value - 2 : value;
}

double wrapped(hvd_dtype dtype, double value) {
  std::array<std::byte, 16> place{};
  write_component(dtype, place.data(), 0, value);
  return read_component(dtype, place.data(), 0);
}

std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }

double fold(hvd_reduce_op op, double a, double b) {
  switch (op) {
    case HVD_MIN:
      return std::min(a, b);
    case HVD_MAX:
      return std::max(a, b);
    case HVD_PRODUCT:
      return a * b;
    case HVD_BIT_AND:
      return static_cast<double>(whole(a) & whole(b));
    case HVD_BIT_OR:
      return static_cast<double>(whole(a) | whole(b));
    case HVD_BIT_XOR:
      return static_cast<double>(whole(a) ^ whole(b));
    default:
      return a + b;
  }
}

double reduced(hvd_reduce_op op, hvd_dtype dtype, const std::vector<int>& ranks, std::size_t i) {
  double result = value_at(dtype, ranks[0], i);
  for (std::size_t k = 1; k < ranks.size(); ++k) {
    result = fold(op, result, value_at(dtype, ranks[k], i));
  }
  if (dtype == HVD_BOOL) return result != 0 ? 1 : 0;
  if (op == HVD_AVERAGE) result /= static_cast<double>(ranks.size());
  if (spacing_of(dtype) > 0) return result;
  return wrapped(dtype, std::trunc(result));
}

std::vector<hvd_reduce_op> reductions_of(hvd_dtype dtype) {
  if (is_complex(dtype)) return {HVD_SUM, HVD_AVERAGE};
  std::vector<hvd_reduce_op> ops = {HVD_SUM, HVD_MIN, HVD_MAX, HVD_PRODUCT};
  if (dtype != HVD_BOOL) ops.push_back(HVD_AVERAGE);
  if (spacing_of(dtype) == 0) ops.insert(ops.end(), {HVD_BIT_AND, HVD_BIT_OR, HVD_BIT_XOR});
  return ops;
}

Vector combine(const Vector& a, const Vector& b) {
  double aa = 0;
  double bb = 0;
  double ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += a[i] * a[i];
    bb += b[i] * b[i];
    ab += a[i] * b[i];
  }
  const double of_a = aa > 0 ? 1 - ab / (2 * aa) : 1;
  const double of_b = bb > 0 ? 1 - ab / (2 * bb) : 1;
  Vector result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = of_a * a[i] + of_b * b[i];
  return result;
}

/// Neighbours combine until one is left; at first only as many as leave a power of two.
Vector adasum(hvd_dtype dtype, const std::vector<int>& ranks, std::size_t count) {
  std::vector<Vector> left;
  for (const int rank : ranks) {
    Vector& values = left.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value_at(dtype, rank, i);
  }
  while (left.size() > 1) {
    const std::size_t extra = left.size() - std::bit_floor(left.size());
    const std::size_t pairs = extra > 0 ? extra : left.size() / 2;
    std::vector<Vector> next;
    for (std::size_t i = 0; i < pairs; ++i) next.push_back(combine(left[2 * i], left[2 * i + 1]));
    for (std::size_t i = 2 * pairs; i < left.size(); ++i) next.push_back(std::move(left[i]));
    left = std::move(next);
  }
  return left[0];
}

/// The cases of one type and size.
class Table {
 public:
  Table(const TableScope& scope, hvd_dtype dtype, std::size_t bytes)
      : scope_(scope), dtype_(dtype), count_((bytes + size_of(dtype) - 1) / size_of(dtype)) {
    root_ = scope.ranks[(count_ + static_cast<std::size_t>(dtype)) % scope.ranks.size()];
  }

  std::string run() {
    for (const hvd_reduce_op op : reductions_of(dtype_)) add_reductions(op);
    if (is_real(dtype_)) add_adasum();
    if (dtype_ == HVD_FLOAT32 || dtype_ == HVD_FLOAT64) add_casts();
    add_moves();
    add_splits();
    std::string wrong;
    for (RunningCase& running : running_) {
      const std::string difference = running.finish();
      if (wrong.empty()) wrong = difference;
    }
    return wrong;
  }

 private:
  std::size_t size() const { return scope_.ranks.size(); }
  std::size_t place() const {
    const auto found = std::find(scope_.ranks.begin(), scope_.ranks.end(), scope_.me);
    return static_cast<std::size_t>(found - scope_.ranks.begin());
  }
  std::size_t components() const { return components_of(dtype_); }

  OperationCase plan(const std::string& what, hvd_kind kind) const {
    OperationCase planned;
    planned.name = what + "." + name_of(dtype_) + "." + std::to_string(count_);
    planned.request.kind = kind;
    planned.request.process_set = scope_.process_set;
    planned.request.root = root_;
    planned.dtype = dtype_;
    planned.count = count_;
    planned.given = [dtype = dtype_, me = scope_.me](std::size_t i) {
      return value_at(dtype, me, i);
    };
    return planned;
  }
  void start(OperationCase planned) { running_.emplace_back(std::move(planned), scope_.memory); }

  void add_reductions(hvd_reduce_op op) {
    const std::string which = std::to_string(op);
    // 8-bit floats hold whole numbers up to 8 or 16 only.
    const double tolerance = op == HVD_AVERAGE || is_float8(dtype_) ? spacing_of(dtype_) : 0;
    const auto reference = [op, dtype = dtype_, ranks = scope_.ranks](std::size_t i) {
      return reduced(op, dtype, ranks, i);
    };
    OperationCase all = plan("allreduce" + which, HVD_ALLREDUCE);
    all.request.reduce_op = op;
    all.in_place = op % 2 == 0;
    all.has_output = true;
    all.wanted = reference;
    all.wanted_count = count_;
    all.tolerance = tolerance;
    start(all);
    if (op != HVD_SUM && op != HVD_AVERAGE && op != HVD_MAX) return;

    OperationCase rooted = all;
    rooted.name = "reduce" + which + all.name;
    rooted.request.kind = HVD_REDUCE;
    rooted.in_place = false;
    if (scope_.me != root_) rooted.wanted_count = 0;
    start(std::move(rooted));

    const std::size_t even = count_ / size();
    const std::size_t more = count_ % size();
    const std::size_t first = even * place() + std::min(place(), more);
    OperationCase scattered = all;
    scattered.name = "reducescatter" + which + all.name;
    scattered.request.kind = HVD_REDUCESCATTER;
    scattered.in_place = false;
    scattered.has_output = false;
    scattered.wanted_count = even + (place() < more ? 1 : 0);
    scattered.wanted = [reference, offset = first * components()](std::size_t i) {
      return reference(offset + i);
    };
    start(std::move(scattered));
  }

  void add_adasum() {
    const auto expected = std::make_shared<Vector>(adasum(dtype_, scope_.ranks, count_));
    OperationCase planned = plan("adasum", HVD_ALLREDUCE);
    planned.request.reduce_op = HVD_ADASUM;
    planned.has_output = true;
    planned.wanted = [expected](std::size_t i) { return (*expected)[i]; };
    planned.wanted_count = count_;
    planned.tolerance = dtype_ == HVD_FLOAT64 ? 1e-12 : std::max(1e-5, 2 * spacing_of(dtype_));
    start(std::move(planned));
  }

  /// Scaled by powers of two, which no type rounds.
  void add_casts() {
    for (const hvd_wire wire : {HVD_WIRE_SAME, HVD_WIRE_FLOAT16, HVD_WIRE_BFLOAT16}) {
      OperationCase planned = plan("wire" + std::to_string(wire), HVD_ALLREDUCE);
      planned.request.wire = wire;
      planned.request.prescale = 0.5;
      planned.request.postscale = 4;
      planned.has_output = true;
      planned.wanted = [dtype = dtype_, ranks = scope_.ranks](std::size_t i) {
        return 2 * reduced(HVD_SUM, dtype, ranks, i);
      };
      planned.wanted_count = count_;
      start(std::move(planned));
    }
  }

  /// What a rank gives to an allgather or gather: nothing, all, half of `count_`, ...
  std::size_t rows_of(std::size_t place) const { return place == 0 ? 0 : count_ / place; }

  void add_moves() {
    OperationCase cast = plan("broadcast", HVD_BROADCAST);
    cast.has_output = true;
    cast.in_place = count_ % 2 == 0;
    cast.wanted = [dtype = dtype_, root = root_](std::size_t i) {
      return value_at(dtype, root, i);
    };
    cast.wanted_count = count_;
    start(std::move(cast));

    Vector all;
    for (std::size_t from = 0; from < size(); ++from) {
      for (std::size_t i = 0; i < rows_of(from) * components(); ++i) {
        all.push_back(value_at(dtype_, scope_.ranks[from], i));
      }
    }
    const auto expected = std::make_shared<Vector>(std::move(all));
    OperationCase gather = plan("allgather", HVD_ALLGATHER);
    gather.count = rows_of(place());
    gather.wanted = [expected](std::size_t i) { return (*expected)[i]; };
    gather.wanted_count = expected->size() / components();
    start(gather);
    gather.name = "gather" + gather.name;
    gather.request.kind = HVD_GATHER;
    if (scope_.me != root_) gather.wanted_count = 0;
    start(std::move(gather));
  }

  std::size_t split(std::size_t from, std::size_t to) const {
    return (from + to) % 3 * (count_ / (2 * size()));
  }

  /// What `from` sends to this rank starts there in its tensor.
  std::size_t start_of(std::size_t from) const {
    std::size_t rows = 0;
    for (std::size_t to = 0; to < place(); ++to) rows += split(from, to);
    return rows;
  }
  void append_part(Vector& values, std::size_t from) const {
    const std::size_t first = start_of(from) * components();
    for (std::size_t i = 0; i < split(from, place()) * components(); ++i) {
      values.push_back(value_at(dtype_, scope_.ranks[from], first + i));
    }
  }

  void add_splits() {
    const auto splits_of = [this](std::size_t from) {
      std::vector<std::int64_t> splits;
      for (std::size_t to = 0; to < size(); ++to) {
        splits.push_back(static_cast<std::int64_t>(split(from, to)));
      }
      return splits;
    };
    const auto add = [this](OperationCase planned, Vector values) {
      const auto expected = std::make_shared<Vector>(std::move(values));
      planned.wanted = [expected](std::size_t i) { return (*expected)[i]; };
      planned.wanted_count = expected->size() / components();
      start(std::move(planned));
    };
    Vector received;
    for (std::size_t from = 0; from < size(); ++from) append_part(received, from);
    OperationCase exchange = plan("alltoall", HVD_ALLTOALL);
    exchange.splits = splits_of(place());
    add(std::move(exchange), std::move(received));

    const auto found = std::find(scope_.ranks.begin(), scope_.ranks.end(), root_);
    const auto root = static_cast<std::size_t>(found - scope_.ranks.begin());
    Vector part;
    append_part(part, root);
    OperationCase scatter = plan("scatter", HVD_SCATTER);
    if (scope_.me == root_) scatter.splits = splits_of(root);
    if (scope_.me != root_) scatter.count = 0;
    add(std::move(scatter), std::move(part));
  }

  const TableScope& scope_;
  hvd_dtype dtype_;
  std::size_t count_;
  int root_;
  std::vector<RunningCase> running_;
};

/// Tensors of several types, one of them empty, that complete as one; then a barrier.
std::string wrong_group(const TableScope& scope, std::size_t bytes) {
  constexpr std::array<hvd_dtype, 4> kGroup = {HVD_FLOAT32, HVD_INT64, HVD_FLOAT16, HVD_UINT8};
  std::array<std::int64_t, 4> counts = {static_cast<std::int64_t>(bytes / 4), 7, 0, 1};
  std::vector<CaseBytes> data;
  std::array<hvd_tensor, 4> tensors{};
  for (std::size_t t = 0; t < kGroup.size(); ++t) {
    const auto count = static_cast<std::size_t>(counts[t]);
    std::vector<std::byte> given(count * size_of(kGroup[t]));
    for (std::size_t i = 0; i < count; ++i) {
      write_component(kGroup[t], given.data(), i, value_at(kGroup[t], scope.me, i));
    }
    data.emplace_back(std::move(given), scope.memory);
    tensors[t].input = tensors[t].output = data[t].place();
    tensors[t].dtype = kGroup[t];
    tensors[t].dimensions = 1;
    tensors[t].shape = &counts[t];
  }
  hvd_request request = HVD_REQUEST_INITIALIZER;
  request.name = "group";
  request.process_set = scope.process_set;
  request.tensors = tensors.data();
  request.tensor_count = static_cast<std::uint32_t>(tensors.size());
  if (scope.memory != nullptr) scope.memory->name_place(request);
  hvd_request barrier = HVD_REQUEST_INITIALIZER;
  barrier.kind = HVD_BARRIER;
  barrier.process_set = scope.process_set;
  for (const hvd_request* one : {&request, &barrier}) {
    hvd_handle handle = 0;
    hvd::check(hvd_submit(one, &handle));
    hvd::check(hvd_wait(handle, 30));
    hvd_release(handle);
  }
  for (std::size_t t = 0; t < kGroup.size(); ++t) {
    const std::byte* const result = data[t].read();
    for (std::size_t i = 0; i < static_cast<std::size_t>(counts[t]); ++i) {
      if (read_component(kGroup[t], result, i) == reduced(HVD_SUM, kGroup[t], scope.ranks, i)) {
        continue;
      }
      return std::string("group: ") + name_of(kGroup[t]) + "[" + std::to_string(i) + "] is wrong";
    }
  }
  return {};
}

}  // namespace

std::span<const std::size_t> table_sizes() { return kElementCounts; }

std::string wrong_operations(const TableScope& scope, std::size_t bytes) {
  for (int type = 0; type < kTypes; ++type) {
    const auto dtype = static_cast<hvd_dtype>(type);
    const bool is_one_of_each = dtype == HVD_FLOAT32 || dtype == HVD_BFLOAT16 || dtype == HVD_INT64;
    if (bytes > kLarge && !is_one_of_each) continue;
    std::string wrong = Table(scope, dtype, bytes).run();
    if (!wrong.empty()) {
      return "process set " + std::to_string(scope.process_set) + ": " + wrong;
    }
  }
  return wrong_group(scope, bytes);
}

}  // namespace hvd_test
