// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "engine/request/request.h"
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
    /// Ranks tell each other which gradients they have; see whole_request().
    bool tracks_use = false;
    Device device = {};  ///< Of all gradients. On a GPU nothing here may compute with them.
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

  /// Gradient `index` of this step travels by other requests of the caller's.
  Status mark_elsewhere(std::size_t index);

  /// What the ranks told each other of a step; see whole_request().
  struct Round {
    /// Given out on some rank, and not on this one.
    std::vector<std::size_t> needed;
    bool is_over = false;  ///< No rank gives out more in this step.
  };
  /// The first request of a round: 0 where this rank has given out all its gradients. Once a round,
  /// after the last of them or where `is_end`; else nothing.
  std::optional<Request> whole_request(bool is_end);
  /// That is over: true where every rank has, so that nothing is left to tell.
  bool is_whole() const { return *whole_ == 0; }
  /// Else the second one: which gradients this rank has given out, and whether it gives out more.
  Request use_request(bool is_final);
  /// That is over: what it said. Another round may follow.
  Round end_round();

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
  /// All reductions are over: ends what compression does, scales local gradients, applies
  /// differences. Where a reduced gradient is not finite, whoever scales the loss discards the step
  /// on all ranks, and so compression keeps what it kept before it.
  void finish(int ranks);
  SquaredNorm squared_norm() const;
  /// Multiplies all gradients of the step.
  void scale(double factor);

  /// All reductions of the step are over: start counting again.
  void begin_step();

  Status set_passes_per_step(int passes);
  Status set_clip_norm(double limit);
  /// Gradients are the true ones times this from the next step on. What compression keeps, the clip
  /// norm and differences are true. kInvalidArgument: out of range, or the step has begun.
  Status set_loss_scale(double scale);
  double loss_scale() const { return loss_scale_; }

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
  /// kUnsupported: what stays on a rank meets no compression, and so none with a momentum.
  static Status check_momentum(const Entry& entry, Sharing sharing);
  Allreduce operation_of(const Entry& entry) const;
  bool travels(const Entry& entry) const {
    return entry.is_submitted && entry.data != nullptr && entry.sharing == Sharing::kReduced;
  }
  /// True when all gradients that the ranks reduced are finite; the same on all ranks.
  bool are_finite() const;
  void finish_compression();
  Result<Request> first_request(Entry& entry, int ranks);
  static Result<std::shared_ptr<Memory>> load_memory(const Entry& entry, ByteReader& reader);
  Request request_for(const Entry& entry, const Exchange& exchange) const;
  Request round_request(std::string_view stage, std::span<float> values) const;

  std::vector<Entry> gradients_;
  Options options_;
  double loss_scale_ = 1;
  /// Of this round: 1 for each gradient that this rank has given out, then 1 where it gives out
  /// more; afterwards the reduction of that over the ranks. Shared with requests in flight.
  std::shared_ptr<std::vector<float>> uses_;
  std::shared_ptr<float> whole_;  ///< The same for all gradients at once.
  bool is_whole_sent_ = false;
  std::size_t submitted_ = 0;
  std::size_t pending_bytes_ = 0;
};

}  // namespace hvd
