// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/request.h"

namespace hvd {

/// The gradients that one optimizer reduces in each step, and how far each has come.
///
/// Says for every gradient that becomes ready what to submit: nothing while passes accumulate
/// locally, else a request; and whether the engine must wake for it. Waking costs some 10 us, so
/// gradients leave in buckets: when `flush_bytes` are pending, or with the last gradient.
/// Pure: owns no memory of gradients and calls nobody. One thread at a time.
class GradientSet {
 public:
  struct Options {
    Allreduce operation{ReduceOp::kAverage};
    int passes_per_step = 1;  ///< Backward passes that add up before the gradients are reduced.
    std::size_t flush_bytes = std::size_t{4} << 20;
  };
  /// One gradient: its name, shape, type and layout; pointers are ignored.
  struct Gradient {
    std::string name;
    Tensor tensor;
  };

  GradientSet(std::vector<Gradient> gradients, Options options);

  std::size_t size() const { return gradients_.size(); }

  /// Gradient `index` got the contribution of one backward pass and lies at `data`. Returns the
  /// request to submit now: a reduction in place; nothing while passes are outstanding (unless
  /// `last_pass`). kInvalidArgument: no such gradient, or a pass too many.
  Result<std::optional<Request>> ready(std::size_t index, void* data, bool last_pass);

  /// Gradients that have not been given out for reduction in this step.
  std::vector<std::size_t> missing() const;

  /// The gradient changed type, shape or layout from now on.
  Status describe(std::size_t index, Tensor tensor);

  /// All reductions of the step are over: start counting again.
  void begin_step();

  Status set_passes_per_step(int passes);

 private:
  struct Entry {
    Gradient gradient;
    std::size_t bytes = 0;
    int passes = 0;
    bool is_submitted = false;
  };
  Status check_index(std::size_t index) const;

  std::vector<Entry> gradients_;
  Options options_;
  std::size_t submitted_ = 0;
  std::size_t pending_bytes_ = 0;
};

}  // namespace hvd
