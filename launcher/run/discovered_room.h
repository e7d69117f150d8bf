// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "launcher/options/run_options.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/host_slots.h"
#include "launcher/plan/placement.h"
#include "launcher/run/periodic.h"
#include "launcher/run/room.h"

namespace hvd {

/// The slots of this machine, as --host-discovery-script says them each second. Where it fails
/// those of before count. Not thread-safe.
class DiscoveredRoom : public Room {
 public:
  static Result<std::unique_ptr<DiscoveredRoom>> start(const RunOptions& options,
                                                       const Allocation& allocation,
                                                       const Placement& placement);
  int events() const override { return questions_->events(); }
  void tell(ElasticJob& job) override;

 private:
  using Questions = Periodic<SlotsHere>;
  DiscoveredRoom(std::unique_ptr<Questions> questions, int slots, int max_size)
      : questions_(std::move(questions)), slots_(slots), max_size_(max_size) {}

  std::unique_ptr<Questions> questions_;
  int slots_;
  int max_size_;
  std::string trouble_;  ///< The last that was told to the user.
};

}  // namespace hvd
