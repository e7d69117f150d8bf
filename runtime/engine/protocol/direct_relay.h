// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plane/direct_rounds.h"
#include "engine/protocol/control_message.h"

namespace hvd {

/// Carries what ranks write into the direct rounds of the world between the nodes, each of which
/// has memory of its own for them. Of a node's leader alone; whatever it takes from a neighbour it
/// hands on to its other neighbours, so that each write comes once, and those of a rank in order.
/// Pure except for that memory. One thread at a time.
class DirectRelay {
 public:
  /// `node_ranks`: of this node. `rounds` outlives this.
  DirectRelay(DirectRounds& rounds, const std::vector<int>& node_ranks);

  /// What the ranks of this node have written since the last call, for every neighbour.
  std::vector<ControlMessage> take_news();
  /// What a rank of another node has written. False: it is not from our code.
  bool take(const Brought& brought);
  bool take(const WantedBack& wanted);

 private:
  struct Sender {
    int rank = 0;
    std::uint64_t round = 0;        ///< The last one that was sent.
    std::uint64_t wanted_back = 0;  ///< As it was sent.
  };
  bool is_of_node(int rank) const;

  DirectRounds& rounds_;
  std::vector<Sender> senders_;
};

}  // namespace hvd
