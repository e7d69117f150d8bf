// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "engine/request.h"
#include "optim/compression/compressor.h"

namespace hvd {

/// The gradients that one optimizer reduces in each step, and how far each has come.
///
/// Says for every gradient that becomes ready what to submit: nothing while passes accumulate
/// locally, else a request; and whether the engine must wake for it. Waking costs some 10 us, so
/// gradients leave in buckets: when `flush_bytes` are pending, or with the last gradient if
/// kWorthWaking are; the rest when the step is waited for, or with the engine's next look around. A
/// compressed gradient takes several requests, see resume().
/// Calls nobody; owns no gradients, only what compression and local steps need beside them. One
/// thread at a time.
class GradientSet {
 public:
  /// What is reduced in less time than a thread takes to wake needs no head start.
  static constexpr std::size_t kWorthWaking = std::size_t{256} << 10;

  struct Options {
    Allreduce operation{ReduceOp::kAverage};
    int passes_per_step = 1;  ///< Backward passes that add up before the gradients are reduced.
    /// Divides by the passes of the step as well: the mean over passes instead of their sum.
    bool mean_over_passes = false;
    /// An average scales by 1/f before the sum and by f/size after it, so that sums of half types
    /// use the middle of their range; f = 1 divides after, f = size before. Average only.
    double predivide = 1;
    double clip_norm = 0;  ///< Largest global norm of the reduced gradients; 0: any.
    std::size_t flush_bytes = std::size_t{4} << 20;
    int process_set = 0;  ///< The ranks among which gradients are reduced.
    Device device = {};   ///< Of all gradients. On a GPU nothing here may compute with them.
  };
  /// One gradient: its name, shape, type and layout; pointers are ignored.
  struct Gradient {
    std::string name;
    Tensor tensor;
  };
  /// What becomes of a gradient between the ranks.
  enum class Sharing {
    kReduced,
    kLocal,        ///< Never reduced: a variable of this rank alone.
    kLocalScaled,  ///< The same, divided by the ranks: as much as it would weigh in an average.
  };

  GradientSet(std::vector<Gradient> gradients, Options options);

  /// Ok, or kInvalidArgument: numbers out of range, or a predivide for other than an average;
  /// kUnsupported: clipping of GPU memory.
  static Status check(const Options& options);

  std::size_t size() const { return gradients_.size(); }
  const Options& options() const { return options_; }

  /// Gradient `index` got the contribution of one backward pass and lies at `data` until the end
  /// of the step, which so many ranks take part in. Returns the request to submit now: its
  /// reduction; nothing while passes are outstanding (unless `last_pass`), or where it is local.
  /// kInvalidArgument: no such gradient, or a pass too many.
  Result<std::optional<Request>> ready(std::size_t index, void* data, bool last_pass, int ranks);

  /// The last request of gradient `index` is over and gathered this, or null. Returns the next.
  Result<std::optional<Request>> resume(std::size_t index, const GatherResult* gathered);

  bool is_compressed(std::size_t index) const {
    const auto& memory = gradients_[index].memory;
    return memory != nullptr && memory->compressor != nullptr;
  }
  /// Every gradient is ready, and so much is pending that the engine should wake.
  bool is_worth_waking() const {
    return submitted_ == gradients_.size() && pending_bytes_ >= kWorthWaking;
  }

  /// Gradients that have not been given out for reduction in this step.
  std::vector<std::size_t> missing() const;

  /// The gradient changed type, shape or layout from now on. What compression kept is forgotten.
  Status describe(std::size_t index, Tensor tensor);

  /// From the next step on. kInvalidArgument: in flight, local, or not a sum or an average.
  Status compress(std::size_t index, const Compression& compression);
  Status share(std::size_t index, Sharing sharing);

  /// This step reduces what a local optimizer step changes: keeps `values`; then ready() takes the
  /// values after that step, reduces the differences, and finish() leaves values + reduced
  /// difference. With ReduceOp::kAdasum this is the Adasum delta optimizer (Maleki et al. 2020,
  /// https://arxiv.org/abs/2006.02924). float32 only.
  Status start(std::size_t index, const void* values);

  /// True when some gradient that is ready is not reduced: the norm then needs all ranks.
  bool has_local() const;
  /// Squared norms of the reduced and of the local gradients of the step, after scaling.
  struct SquaredNorm {
    double reduced = 0;
    double local = 0;
  };
  /// For the sum of the local norms over all ranks.
  std::string norm_name() const { return gradients_.front().gradient.name + "/norm"; }
  /// All reductions are over: scales local gradients, applies differences.
  void finish(int ranks);
  SquaredNorm squared_norm() const;
  /// Multiplies all gradients of the step.
  void scale(double factor);

  /// All reductions of the step are over: start counting again.
  void begin_step();

  Status set_passes_per_step(int passes);
  Status set_clip_norm(double limit);

  /// What compression keeps between steps, for a checkpoint of this rank.
  Bytes save() const;
  /// kInvalidArgument: the state is of other gradients or methods; nothing has changed then.
  Status load(std::span<const std::byte> state);

 private:
  /// Shared by the set and the requests in flight, which outlive a set that is destroyed early.
  struct Memory {
    std::unique_ptr<Compressor> compressor;
    std::vector<float> start;       ///< Values before the local step.
    std::vector<float> difference;  ///< What it changed.
  };
  struct Entry {
    Gradient gradient;
    std::size_t count = 0;
    std::size_t bytes = 0;
    Compression compression{};
    Sharing sharing = Sharing::kReduced;
    std::shared_ptr<Memory> memory{};  ///< Null for what is reduced in place.
    void* data = nullptr;              ///< Of this step.
    int passes = 0;
    bool is_submitted = false;
    bool is_difference = false;
  };
  bool is_on_gpu() const { return options_.device.kind != DeviceKind::kCpu; }
  Status check_index(std::size_t index) const;
  Status check_idle(std::size_t index) const;
  Allreduce operation_of(const Entry& entry) const;
  Result<Request> first_request(Entry& entry, int ranks);
  static Result<std::shared_ptr<Memory>> load_memory(const Entry& entry, ByteReader& reader);
  Request request_for(const Entry& entry, const Exchange& exchange) const;

  std::vector<Entry> gradients_;
  Options options_;
  std::size_t submitted_ = 0;
  std::size_t pending_bytes_ = 0;
};

}  // namespace hvd
