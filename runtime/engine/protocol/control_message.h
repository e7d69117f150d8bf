// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "collective/rank_set.h"
#include "engine/request/description.h"

namespace hvd {

/// Upwards: `ranks` submitted `name` for the first time, or with a changed description.
struct Announce {
  std::string name;
  bool cacheable = true;  ///< False: the name will not come again and gets no id.
  Description description;
  RankSet ranks;
  bool is_place = false;  ///< As PendingRequest::call: the caller gave no name.
};
/// Upwards: every rank of the sender's subtree that is in the process set has submitted these ids.
struct Ready {
  std::vector<std::uint32_t> ids;
};
/// Upwards: some ranks of the subtree have submitted the id, and the rest may not follow.
struct Partial {
  std::uint32_t id = 0;
  RankSet ranks;
  std::uint32_t waited_ms = 0;  ///< The first of them, before this was said.
};
/// Requests that a rank has submitted and not announced when it says its last word: uses of a name
/// that queue behind one in flight.
struct Owed {
  int process_set = 0;
  std::string name;
  std::uint32_t uses = 0;
};
/// Upwards: the rank has called shutdown and will announce nothing more but what it owes.
struct Leave {
  int rank = 0;
  std::vector<Owed> owed = {};
};
/// Upwards: until all its ranks have joined, the rank announces nothing more for the process set
/// but what it owes.
struct Joining {
  int rank = 0;
  int process_set = 0;
  std::uint32_t epoch = 0;      ///< Joins of the set that have ended, as the rank has seen.
  bool active_average = false;  ///< Averages meanwhile divide by the ranks that take part.
  std::vector<Owed> owed = {};
};
/// Upwards: a rank waits for something that nothing has decided, and what it has submitted of a
/// bucket of the process set may wait for what it has not.
struct Urge {
  int process_set = 0;
  std::string text;  ///< For people: the rank, and what is missing.
};
/// Upwards: `ranks` ranks have read the last Evict and toggle the bits of its ids no more.
struct Evicted {
  std::uint32_t ranks = 0;
};
/// The log: the names of these ids have none from here on, and are announced in full. An id stands
/// for nothing once every rank has said Evicted; until then its bit may be on its way.
struct Evict {
  std::vector<std::uint32_t> ids = {};
};
/// The log: `name` of the described process set is `id` from here on, with the description that
/// was just announced.
struct Define {
  std::uint32_t id = 0;
  std::string name;
  Description description = {};
};
/// The log: run these together, in this order. Either ids, or one name, which has no id or whose
/// use is not what its id stands for.
struct Run {
  std::vector<std::uint32_t> ids = {};
  std::string name = {};
  int process_set = 0;
  int divisor = 0;           ///< Of averages, where it is not the size of the process set.
  std::uint32_t bucket = 0;  ///< Not 0: these ids are this bucket (from 1) of the frozen schedule.
  /// Of `name`, when some rank has joined and may not know it.
  std::optional<Description> description = std::nullopt;
};
/// The log: the request of this name fails on every rank; the engine works on.
struct Failure {
  std::string name;
  Code code = Code::kMismatch;
  std::string text;
  int process_set = 0;
};
/// The log: what the rank neither has announced nor owes it takes part in with nothing to add.
struct Joined {
  int rank = 0;
  int process_set = 0;
};
/// The log: all ranks of the process set have joined, `rank` as the last; or the join has failed.
struct JoinEnd {
  int process_set = 0;
  int rank = 0;
  Code code = Code::kOk;
  std::string text = {};
};
/// The log: these ranks are the process set from here on.
struct SetAdded {
  int process_set = 0;
  RankSet ranks;
};
/// The log: the process set was removed, and its ids stand for nothing.
struct SetRemoved {
  int process_set = 0;
};
/// The log: the rank has left by shutdown.
struct Left {
  int rank = 0;
  bool owes = false;  ///< It has yet to announce what it owes; once more without, then.
};
/// The log: from here on the ids of each bucket run together; `ends` is where each bucket ends in
/// `ids`.
struct Frozen {
  int process_set = 0;
  std::vector<std::uint32_t> ids = {};
  std::vector<std::uint32_t> ends = {};
};
/// The log: names of the process set run as they become complete again.
struct Thawed {
  int process_set = 0;
  std::string text;  ///< Why.
};
/// Every way: the rank is lost, the epoch ends.
struct Lost {
  int rank = 0;
  std::string text;
};
/// The log: ranks have waited for others longer than they may; the epoch ends.
struct GiveUp {
  std::string text;
};
/// The log: every rank has left. The last entry.
struct Shutdown {};
/// Between nodes: I am alive.
struct Heartbeat {};
/// Between nodes: why my process is about to end; told once its connection has.
struct Farewell {
  std::string text;
};

/// Between nodes: what a rank has written into a direct round of the world (see DirectRounds).
struct Brought {
  int rank = 0;
  std::uint64_t round = 0;
  std::uint32_t key = 0;
  std::uint32_t position = 0;
  Bytes bytes = {};
};
/// Between nodes: up to this direct round the rank wants its offers back.
struct WantedBack {
  int rank = 0;
  std::uint64_t round = 0;
};

/// The messages between members, leaders and the root, over boards and tree links alike.
using ControlMessage =
    std::variant<Announce, Ready, Partial, Leave, Define, Run, Failure, Left, Lost, Shutdown,
                 Heartbeat, SetAdded, SetRemoved, Joining, Joined, JoinEnd, Urge, Frozen, Thawed,
                 GiveUp, Evict, Evicted, Farewell, Brought, WantedBack>;

Bytes encode(const ControlMessage& message);
/// `size` is the number of ranks. Fails on anything that encode() does not write: the bytes come
/// from another process.
Result<ControlMessage> decode_control_message(std::span<const std::byte> bytes, int size);

}  // namespace hvd
