// SPDX-License-Identifier: Apache-2.0
// Bootstraps from its environment and prints what it became, one line per rank.
#include <cstdio>
#include <utility>

#include "base/environment.h"
#include "bootstrap/bootstrap.h"

int main() {
  const auto environment = hvd::Environment::of_process();
  const auto begin = hvd::Clock::now();
  auto settings = hvd::MeetingSettings::from(environment);
  if (!settings.is_ok()) {
    std::fprintf(stderr, "%s\n", settings.status().message().c_str());
    return 1;
  }
  auto result = hvd::bootstrap(
      environment,
      {.memory_bytes = [](int local_size) { return static_cast<std::size_t>(local_size) << 16; },
       .settings = std::move(settings).value()});
  if (!result.is_ok()) {
    std::fprintf(stderr, "bootstrap failed (%d): %s\n", static_cast<int>(result.status().code()),
                 result.status().message().c_str());
    return 1;
  }
  const hvd::Wiring& wiring = result.value();
  std::size_t links = 0;
  for (const auto& link : wiring.lane) links += link != nullptr ? 1 : 0;
  const auto& me = wiring.peers[static_cast<std::size_t>(wiring.rank)];
  std::printf(
      "rank=%d size=%d node=%d local=%d/%d host=%s lanes=%d links=%zu parent=%d "
      "children=%zu by='%s' ms=%.1f why='%s'\n",
      wiring.rank, wiring.size, me.node, me.local_rank, wiring.node.local_size, me.host.c_str(),
      wiring.lanes, links, wiring.parent != nullptr ? 1 : 0, wiring.children.size(),
      wiring.bootstrap.c_str(),
      std::chrono::duration<double, std::milli>(hvd::Clock::now() - begin).count(),
      wiring.bootstrap_reason.c_str());
  return 0;
}
