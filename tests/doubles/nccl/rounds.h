// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "doubles/nccl/message.h"

namespace double_nccl {

/// What a rank is told.
struct Reply {
  int rank = 0;
  Frame frame;
  Bytes payload;
};

/// Brings the operations of the ranks of one communicator together: the n-th collective of a rank
/// belongs to the n-th of the others, the n-th send from a to b to the n-th receive of b from a.
/// What hosts agree on (splits, windows) counts by itself, as streams may be far behind them.
/// Where they disagree, which NCCL leaves undefined, there is a complaint.
/// One thread only.
class Rounds {
 public:
  /// `make_star` begins another communicator and names it.
  Rounds(int size, std::function<ncclUniqueId()> make_star)
      : size_(size), make_star_(std::move(make_star)) {
    of_streams_.done.resize(static_cast<std::size_t>(size));
    of_hosts_.done.resize(static_cast<std::size_t>(size));
  }

  /// What is due now that `rank` has come with this.
  std::vector<Reply> add(int rank, const Frame& frame, Bytes payload);
  /// `rank` has destroyed its communicator.
  std::vector<Reply> leave(int rank);
  /// What the ranks disagree about; "": nothing.
  const std::string& complaint() const { return complaint_; }
  /// Ranks that others wait for in the oldest collective that has begun.
  std::vector<int> awaited() const;

 private:
  struct Entry {
    Frame frame;
    Bytes payload;
  };
  struct Round {
    std::vector<std::optional<Entry>> entries;
    int arrived = 0;
  };
  struct Sequence {
    std::vector<std::uint64_t> done;  ///< What each rank has come with.
    std::uint64_t first = 0;          ///< Number of the round at the front.
    std::deque<Round> rounds;
  };
  /// Of one pair of ranks; one of the two is empty.
  struct Pair {
    std::deque<Entry> sends;
    std::deque<Entry> receives;
  };

  void compare(int rank, const Operation& mine, const Round& round);
  void check_leavers(const Round& round);
  std::vector<Reply> finish(Round& round) const;
  Bytes folded(Round& round) const;
  std::vector<Reply> split(const Round& round) const;
  std::vector<Reply> meet(int from, int to);

  int size_;
  Sequence of_streams_;
  Sequence of_hosts_;
  std::map<std::pair<int, int>, Pair> pairs_;
  std::vector<int> leavers_;
  std::function<ncclUniqueId()> make_star_;
  std::string complaint_;
};

}  // namespace double_nccl
