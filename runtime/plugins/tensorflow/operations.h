// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "hvd/hvd.h"

namespace hvd::tensorflow {

/// How the rows of a result follow from those of the input.
enum class Rows {
  kSame,     ///< The shape of the input.
  kShare,    ///< Reducescatter: a share of the rows.
  kAtRoot,   ///< Reduce: the shape of the input on the root; no rows elsewhere.
  kCounted,  ///< Known when the operation has ended; the op has a second output, `rows`.
};

/// One TensorFlow op, by its collective.
struct Operation {
  const char* op;  ///< Name in TensorFlow's registry.
  hvd_kind kind;
  Rows rows;
  bool takes_splits;  ///< Has a second input, `splits`.
};

/// All of them: op_definitions.cc defines them, collective_kernel.cc runs them.
std::span<const Operation> operations();

/// Questions about the job, answered when the graph runs (op HvdQuery, attribute `what`).
enum class Question : int {
  kRank = 0,
  kSize = 1,
  kLocalRank = 2,
  kLocalSize = 3,
  kIncluded = 4,  ///< 1: this rank is in the process set, 0: it is not, -1: there is no such set.
};

}  // namespace hvd::tensorflow
