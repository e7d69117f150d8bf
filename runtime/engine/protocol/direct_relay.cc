// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/direct_relay.h"

#include <algorithm>

namespace hvd {

DirectRelay::DirectRelay(DirectRounds& rounds, const std::vector<int>& node_ranks)
    : rounds_(rounds) {
  for (const int rank : node_ranks) senders_.push_back({.rank = rank});
}

std::vector<ControlMessage> DirectRelay::take_news() {
  std::vector<ControlMessage> news;
  for (Sender& sender : senders_) {
    // Before the slots: what the rank wrote before it stopped goes first.
    const std::uint64_t wanted_back = rounds_.wanted_back(sender.rank);
    while (const auto written = rounds_.written(sender.rank, sender.round + 1)) {
      ++sender.round;
      news.emplace_back(Brought{sender.rank,
                                sender.round,
                                written->offer.key,
                                written->offer.position,
                                {written->bytes.begin(), written->bytes.end()}});
    }
    if (wanted_back == sender.wanted_back) continue;
    sender.wanted_back = wanted_back;
    news.emplace_back(WantedBack{sender.rank, wanted_back});
  }
  return news;
}

bool DirectRelay::is_of_node(int rank) const {
  return std::any_of(senders_.begin(), senders_.end(),
                     [rank](const Sender& sender) { return sender.rank == rank; });
}

bool DirectRelay::take(const Brought& brought) {
  if (is_of_node(brought.rank)) return false;
  return rounds_.take_written(
      brought.rank, brought.round,
      {{.key = brought.key, .position = brought.position, .bytes = 0}, brought.bytes});
}

bool DirectRelay::take(const WantedBack& wanted) {
  return !is_of_node(wanted.rank) && rounds_.take_wanted_back(wanted.rank, wanted.round);
}

}  // namespace hvd
