// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/discovered_room.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/format.h"
#include "launcher/run/host_discovery.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kBetweenCalls{1};

}  // namespace

Result<std::unique_ptr<DiscoveredRoom>> DiscoveredRoom::start(const RunOptions& options,
                                                              const Allocation& allocation,
                                                              const Placement& placement) {
  const auto ask = [options, host = allocation.host,
                    environment = allocation.environment](int interrupt) {
    return ask_for_slots(options, host, environment, kForever, interrupt);
  };
  HVD_TRY_ASSIGN(auto questions, Questions::start(ask, kBetweenCalls));
  return std::unique_ptr<DiscoveredRoom>(
      new DiscoveredRoom(std::move(questions), placement.size, placement.elastic->max_size));
}

void DiscoveredRoom::tell(ElasticJob& job) {
  const auto answer = questions_->take();
  if (!answer) return;
  // No line at all is a script that failed without saying so, rather than a machine without slots.
  if (!answer->is_ok() || !answer->value().names_hosts) {
    const std::string trouble = answer->is_ok() ? "--host-discovery-script: it printed no host"
                                                : answer->status().message();
    if (trouble != trouble_) job.say(trouble + "; what it said before counts");
    trouble_ = trouble;
    return;
  }
  trouble_.clear();
  const int slots = std::min(answer->value().slots, max_size_);
  if (slots == std::exchange(slots_, slots)) return;
  job.aim_at(slots, format_text("this machine has {} slot{} now", answer->value().slots,
                                answer->value().slots == 1 ? "" : "s"));
}

}  // namespace hvd
