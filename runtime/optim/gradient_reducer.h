// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "engine/engine.h"
#include "optim/gradient_set.h"

namespace hvd {

/// Runs the steps of a GradientSet on an engine.
///
/// A step: ready() for each gradient, which submits it at once, then wait(). There compressed
/// gradients go through their stages, all gradients one stage at a time, so that the engine can
/// put them into common batches; at last the global norm is clipped. One thread at a time.
class GradientReducer {
 public:
  explicit GradientReducer(GradientSet set) : set_(std::move(set)) {}

  GradientSet& set() { return set_; }
  const GradientSet& set() const { return set_; }

  /// One backward pass has written a gradient; `stream` holds what does so on a GPU.
  struct Ready {
    std::size_t index = 0;
    void* data = nullptr;
    bool last_pass = false;
    StreamHandle stream = nullptr;
  };
  /// See GradientSet::ready().
  Status ready(Engine& engine, const Ready& one);

  /// Gradient `index` of this step travels by other requests of the caller's.
  Status mark_elsewhere(Engine& engine, std::size_t index);

  /// Tells the other ranks which gradients this one has given out, and whether it gives out more in
  /// this step; what they told. kTimeout: not all have told, call again. After any other failure
  /// the step is over. Options::tracks_use.
  Result<GradientSet::Round> exchange(Engine& engine, bool is_final, Deadline deadline);

  /// Waits for the reductions of the step and, unless more gradients follow, ends it. kTimeout:
  /// some are still in flight, call again. After any other failure the step is over and gradients
  /// are undefined.
  Status wait(Engine& engine, Deadline deadline, bool ends = true);
  /// GPU memory: the same in the order of a stream, without a wait for the device.
  Status wait_stream(Engine& engine, StreamHandle stream, Deadline deadline, bool ends = true);

  /// Ends the step without its results: returns when nothing reads or writes its gradients any
  /// more. Where that is not so by the deadline, because ranks do not come, it ends this rank's
  /// part in the job: the others get `cause` and the name of this rank.
  void settle(Engine& engine, Deadline deadline, const std::string& cause);
  /// Forgets the step; null where there is no engine any more. What is in flight goes on.
  void abandon(Engine* engine);
  bool is_idle() const { return submitted_.empty() && whole_ == 0 && use_ == 0; }

  /// The global norm of the last step that was waited for with a clip norm, before clipping.
  double last_norm() const { return last_norm_; }

 private:
  struct Submitted {
    std::size_t index = 0;  ///< Of the gradient; kNorm for the norms of local gradients.
    Engine::Handle handle = 0;
  };
  /// How many ranks reduce. kInvalidArgument: the process set is not there,
  /// or without this rank.
  Result<int> ranks(const Engine& engine) const;
  Status submit(Engine& engine, std::size_t index, Request request);
  Status submit_whole(Engine& engine, bool is_end);
  std::vector<Engine::Handle> handles() const;
  Status wait_for_stage(Engine& engine, const std::function<Status(const Submitted&)>& wait);
  void start_next_stage(Engine& engine);
  Status finish_reductions(Engine& engine);
  void note(Status status);
  Status end_step(Engine& engine);

  GradientSet set_;
  std::vector<Submitted> submitted_;  ///< In the order of submission, all stages.
  std::size_t stage_begin_ = 0;       ///< Of `submitted_`: the first of the current stage.
  std::size_t waited_ = 0;            ///< Of `submitted_`: those whose outcome is known.
  std::vector<bool> failed_;          ///< For each of `submitted_` that is waited for.
  Status failure_;                    ///< The first failure of the step.
  bool is_finishing_ = false;         ///< All gradients are reduced, or the step has failed.
  double reduced_norm_ = 0;           ///< Squared, of the reduced gradients of the step.
  /// Squared, of the local ones. Shared with the request in flight, which may outlive this.
  std::shared_ptr<double> local_norm_ = std::make_shared<double>(0);
  double last_norm_ = 0;
  /// Of the round, 0: not submitted.
  Engine::Handle whole_ = 0;
  Engine::Handle use_ = 0;
};

}  // namespace hvd
