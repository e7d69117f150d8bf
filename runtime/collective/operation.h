// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

/// Who must give the memory of a tensor, where it has elements.
enum class Memory : std::uint8_t {
  kEveryRank,
  kRoot,
  kLibrary,  ///< The library makes it; a rank may give its own.
};

/// What holds for every operation of a kind. Checks of requests, agreement, fusion and the
/// interfaces follow it, and the parameters that the kind's structure has: `root`, `op` with
/// `prescale` and `postscale`, `wire`.
struct Kind {
  std::string_view name;
  bool has_tensors = true;
  Memory input = Memory::kEveryRank;
  Memory output = Memory::kEveryRank;
  bool has_free_rows = false;  ///< The first dimension may differ by rank.
  bool has_splits = false;     ///< Each rank, or the root, says how many of its rows go where.
};

/// out = postscale * reduce(prescale * in over ranks). Average divides by the size of the process
/// set after the sum (by `divisor` while ranks have joined). Scaling is in float64 for float64,
/// else in float32.
struct Allreduce {
  static constexpr Kind kKind{.name = "allreduce"};
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  Wire wire = Wire::kSame;
  int divisor = 0;  ///< Of an average; 0: the size of the process set.
  bool operator==(const Allreduce&) const = default;
};

/// Concatenates along the first dimension, which may differ from rank to rank (also be zero).
struct Allgather {
  static constexpr Kind kKind{
      .name = "allgather", .output = Memory::kLibrary, .has_free_rows = true};
  bool operator==(const Allgather&) const = default;
};

/// Copies the tensor of `root` (a rank of the process set) to every rank.
struct Broadcast {
  static constexpr Kind kKind{.name = "broadcast"};
  int root = 0;
  bool operator==(const Broadcast&) const = default;
};

/// Returns when every rank has entered.
struct Barrier {
  static constexpr Kind kKind{.name = "barrier", .has_tensors = false};
  bool operator==(const Barrier&) const = default;
};

/// As an allreduce, but every rank keeps its share of the rows only: the first ranks have one more
/// where the rows do not divide (see first_row_of()).
struct Reducescatter {
  static constexpr Kind kKind{.name = "reducescatter", .output = Memory::kLibrary};
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  bool operator==(const Reducescatter&) const = default;
};

/// Every rank sends each rank some of its rows (its splits) and receives, by rank, what the others
/// sent to it.
struct Alltoall {
  static constexpr Kind kKind{
      .name = "alltoall", .output = Memory::kLibrary, .has_free_rows = true, .has_splits = true};
  bool operator==(const Alltoall&) const = default;
};

/// As an allreduce, but only `root` gets the result.
struct Reduce {
  static constexpr Kind kKind{.name = "reduce", .output = Memory::kRoot};
  int root = 0;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  bool operator==(const Reduce&) const = default;
};

/// As an allgather, but only `root` gets the rows.
struct Gather {
  static constexpr Kind kKind{.name = "gather", .output = Memory::kLibrary, .has_free_rows = true};
  int root = 0;
  bool operator==(const Gather&) const = default;
};

/// Sends each rank its share of the rows of `root` (its splits).
struct Scatter {
  static constexpr Kind kKind{.name = "scatter",
                              .input = Memory::kRoot,
                              .output = Memory::kLibrary,
                              .has_free_rows = true,
                              .has_splits = true};
  int root = 0;
  bool operator==(const Scatter&) const = default;
};

/// This rank has no more data: it takes part in what the others reduce, with nothing to add, until
/// all have joined.
struct Join {
  static constexpr Kind kKind{.name = "join", .has_tensors = false};
  bool operator==(const Join&) const = default;
};

/// What a request asks for. The index in the variant is the number of the kind: on the wire, and
/// `hvd_kind` in hvd.h.
using Operation = std::variant<Allreduce, Allgather, Broadcast, Barrier, Reducescatter, Alltoall,
                               Reduce, Gather, Scatter, Join>;
inline constexpr std::size_t kKindCount = std::variant_size_v<Operation>;

/// By Operation::index().
inline constexpr auto kKinds = []<std::size_t... kIndices>(std::index_sequence<kIndices...>) {
  return std::array{std::variant_alternative_t<kIndices, Operation>::kKind...};
}
(std::make_index_sequence<kKindCount>());
/// True for an operation of one of these kinds.
template <typename... Kinds>
bool is_one_of(const Operation& operation) {
  return (std::holds_alternative<Kinds>(operation) || ...);
}
inline const Kind& kind_of(const Operation& operation) { return kKinds[operation.index()]; }
inline std::string_view kind_name(const Operation& operation) { return kind_of(operation).name; }
/// An operation of the kind with this number, its parameters unset; nothing: there is no such kind.
std::optional<Operation> operation_of(std::size_t kind);

/// What a reducing operation does to its elements, as the allreduce that does the same.
std::optional<Allreduce> reduction_of(const Operation& operation);
/// The root of an operation that has one.
std::optional<int> root_of(const Operation& operation);
/// Changes the root of an operation that has one.
void set_root(Operation& operation, int root);
/// The kind with its parameters: "allreduce(sum, prescale 0.5)".
std::string describe(const Operation& operation);

/// The first of `rows` rows that `rank` of `size` ranks gets where they are shared out evenly.
constexpr std::size_t first_row_of(std::size_t rows, std::size_t size, std::size_t rank) {
  const std::size_t longer = rows % size;
  return rows / size * rank + (rank < longer ? rank : longer);
}

}  // namespace hvd
