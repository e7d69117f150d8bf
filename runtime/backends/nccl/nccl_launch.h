// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "backends/nccl/nccl_graphs.h"
#include "backends/nccl/nccl_plan.h"
#include "backends/nccl/nccl_session.h"

namespace hvd {

/// A plan with its memory, put into the session's stream piece by piece. Engine thread only.
class NcclLaunch {
 public:
  /// `outputs` by segment; null where none is due. The session's bucket and spare memory hold what
  /// the plan needs.
  NcclLaunch(NcclSession& session, const NcclPlan& plan, const Batch& batch,
             const std::vector<void*>& outputs)
      : session_(session), plan_(plan), batch_(batch), outputs_(outputs) {}

  /// What follows runs when the inputs are there.
  Status wait_for_inputs() const;
  /// Everything between that and NCCL's group: launches alone.
  Status pack() const;
  /// What follows runs after the batches of other process sets that could lock it out.
  Status wait_for_turn() const;
  /// A group, which the communicator then has to settle.
  Status communicate(const std::vector<NcclStep>& steps) const;
  /// What follows it in a round of Adasum.
  Status calculate(const NcclAdasum::Round& round) const;
  /// Everything after it: launches alone.
  Status unpack() const;
  /// What these launches depend on, except for the bucket and its plan.
  NcclGraphShape shape() const;

 private:
  enum class Side { kInputs, kOutputs, kBucket, kSpare };
  std::vector<PackSegment> segments_of(const std::vector<NcclPiece>& pieces, Side side) const;
  std::byte* address(const NcclPlace& place) const;

  NcclSession& session_;
  const NcclPlan& plan_;
  const Batch& batch_;
  const std::vector<void*>& outputs_;
};

}  // namespace hvd
