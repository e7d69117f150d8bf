// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace hvd {

/// Reductions. The numbers are those of `hvd_reduce_op` in hvd.h (and Horovod's).
enum class ReduceOp : std::uint8_t {
  kAverage = 0,
  kSum = 1,
  kAdasum = 2,
  kMin = 3,
  kMax = 4,
  kProduct = 5,
  kBitAnd = 6,
  kBitOr = 7,
  kBitXor = 8,
};
std::string_view name_of(ReduceOp op);

/// What the elements of a float32 or float64 allreduce travel as. The numbers are those of
/// `hvd_wire` in hvd.h.
enum class Wire : std::uint8_t {
  kSame = 0,
  kFloat16 = 1,
  kBfloat16 = 2,
};
std::string_view name_of(Wire wire);

/// out = postscale * reduce(prescale * in over ranks). Average divides by the size of the process
/// set after the sum (by `divisor` while ranks have joined). Scaling is in float64 for float64,
/// else in float32.
struct Allreduce {
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  Wire wire = Wire::kSame;
  int divisor = 0;  ///< Of an average; 0: the size of the process set.
  bool operator==(const Allreduce&) const = default;
};

/// Concatenates along the first dimension, which may differ from rank to rank (also be zero).
struct Allgather {
  bool operator==(const Allgather&) const = default;
};

/// Copies the tensor of `root` (a rank of the process set) to every rank.
struct Broadcast {
  int root = 0;
  bool operator==(const Broadcast&) const = default;
};

/// Returns when every rank has entered.
struct Barrier {
  bool operator==(const Barrier&) const = default;
};

/// As an allreduce, but every rank keeps its share of the rows only: the first ranks have one more
/// where the rows do not divide (see first_row_of()).
struct Reducescatter {
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  bool operator==(const Reducescatter&) const = default;
};

/// Every rank sends each rank some of its rows (its splits) and receives, by rank, what the others
/// sent to it.
struct Alltoall {
  bool operator==(const Alltoall&) const = default;
};

/// As an allreduce, but only `root` gets the result.
struct Reduce {
  int root = 0;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  bool operator==(const Reduce&) const = default;
};

/// As an allgather, but only `root` gets the rows.
struct Gather {
  int root = 0;
  bool operator==(const Gather&) const = default;
};

/// Sends each rank its share of the rows of `root` (its splits).
struct Scatter {
  int root = 0;
  bool operator==(const Scatter&) const = default;
};

/// This rank has no more data: it takes part in what the others reduce, with nothing to add, until
/// all have joined.
struct Join {
  bool operator==(const Join&) const = default;
};

/// What a request asks for. The index in the variant is the *kind* that travels on the wire.
using Operation = std::variant<Allreduce, Allgather, Broadcast, Barrier, Reducescatter, Alltoall,
                               Reduce, Gather, Scatter, Join>;

/// What a reducing operation does to its elements, as the allreduce that does the same.
std::optional<Allreduce> reduction_of(const Operation& operation);
/// The root of an operation that has one.
std::optional<int> root_of(const Operation& operation);
/// Changes the root of an operation that has one.
void set_root(Operation& operation, int root);
/// True where the first dimension may differ by rank: allgather, alltoall, gather and scatter.
bool has_free_rows(const Operation& operation);
/// True where each rank says how many of its rows go where: alltoall and scatter.
bool has_splits(const Operation& operation);
/// False for what has no tensors: barrier and join.
bool has_tensors(const Operation& operation);

/// The first of `rows` rows that `rank` of `size` ranks gets where they are shared out evenly.
constexpr std::size_t first_row_of(std::size_t rows, std::size_t size, std::size_t rank) {
  const std::size_t longer = rows % size;
  return rows / size * rank + (rank < longer ? rank : longer);
}

/// By Operation::index().
inline constexpr std::array<std::string_view, std::variant_size_v<Operation>> kKindNames = {
    "allreduce", "allgather", "broadcast", "barrier", "reducescatter",
    "alltoall",  "reduce",    "gather",    "scatter", "join"};
std::string_view kind_name(const Operation& operation);
/// The kind with its parameters: "allreduce(sum, prescale 0.5)".
std::string describe(const Operation& operation);

}  // namespace hvd
