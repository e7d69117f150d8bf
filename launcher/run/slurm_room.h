// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/placement.h"
#include "launcher/run/periodic.h"
#include "launcher/run/room.h"

namespace hvd {

/// The nodes of the job of Slurm, which is asked for them while some are missing: one may be there
/// again, and the user may have given the job more. Not thread-safe.
class SlurmRoom : public Room {
 public:
  static Result<std::unique_ptr<SlurmRoom>> start(const JobNodes& job_nodes,
                                                  const Allocation& allocation,
                                                  const Placement& placement);
  int events() const override { return questions_->events(); }
  void tell(ElasticJob& job) override;

 private:
  /// Empty: nobody needed an answer.
  using Nodes = std::vector<std::string>;
  using Questions = Periodic<Nodes>;
  SlurmRoom(int max_size, int tasks_per_node) : max_size_(max_size), tasks_(tasks_per_node) {}

  int max_size_;
  int tasks_;  ///< Of a node.
  /// Whether the job has a use for nodes; told by the supervisor, read by the thread that asks.
  std::shared_ptr<std::atomic<bool>> is_asked_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<Questions> questions_;
};

}  // namespace hvd
