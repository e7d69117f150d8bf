// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
};
std::string_view name_of(ReduceOp op);

/// out = postscale * reduce(prescale * in over ranks). Average divides by the size of the process
/// set after the sum. Scaling is in float64 for float64, else in float32.
struct Allreduce {
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
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

/// What a request asks for. The index in the variant is the *kind* that travels on the wire.
using Operation = std::variant<Allreduce, Allgather, Broadcast, Barrier>;

/// "allreduce", "allgather", "broadcast", "barrier".
std::string_view kind_name(const Operation& operation);
/// The kind with its parameters: "allreduce(sum, prescale 0.5)".
std::string describe(const Operation& operation);

}  // namespace hvd
