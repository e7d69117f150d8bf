// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/slurm_room.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/rounding.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kBetweenLooks{5};

int tasks_per_node(const Placement& placement) {
  const std::vector<int>& known = placement.srun->ranks_per_node;
  if (!known.empty()) return *std::max_element(known.begin(), known.end());
  return divide_up(placement.processes(), std::max(placement.node_count, 1));
}

}  // namespace

Result<std::unique_ptr<SlurmRoom>> SlurmRoom::start(const JobNodes& job_nodes,
                                                    const Allocation& allocation,
                                                    const Placement& placement) {
  std::unique_ptr<SlurmRoom> room(
      new SlurmRoom(placement.elastic->max_size, tasks_per_node(placement)));
  const auto ask = [job_nodes, is_asked = room->is_asked_, environment = allocation.environment,
                    job = allocation.environment.get("SLURM_JOB_ID").value_or("")](
                       int interrupt) -> Result<Nodes> {
    if (!is_asked->load(std::memory_order_relaxed)) return Nodes{};
    return job_nodes(job, environment, interrupt);
  };
  HVD_TRY_ASSIGN(room->questions_, Questions::start(ask, kBetweenLooks));
  return room;
}

void SlurmRoom::tell(ElasticJob& job) {
  const auto answer = questions_->take();
  // None: nobody has asked, and a look that was not made is not to be waited after.
  if (answer && answer->is_ok() && !answer->value().empty()) {
    job.offer_nodes(answer->value(), max_size_, tasks_);
  }
  is_asked_->store(job.wants_nodes(max_size_), std::memory_order_relaxed);
}

}  // namespace hvd
