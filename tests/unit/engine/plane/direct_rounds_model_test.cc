// SPDX-License-Identifier: Apache-2.0
// What direct rounds promise, in every order of events of small worlds: the real DirectRounds, and
// around them names, queues and a log in a few lines, as negotiation_direct.cc has them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "../sanitized.h"
#include "base/format.h"
#include "engine/plane/direct_rounds.h"
#include "engine/protocol/direct_relay.h"

namespace hvd {
namespace {

/// What each rank submits. A rank that waits goes on once the use before is over.
struct Program {
  std::string uses;   ///< A letter for each.
  bool waits = true;  ///< For each use before the next.
};

struct Plan {
  std::vector<Program> ranks;
  bool may_announce = true;  ///< A rank may announce what it could offer, and be the only one.
  bool wants_back = false;   ///< At any moment, once each rank.
  bool stops = false;        ///< Each rank, when it has submitted all.
  bool ignores_conflicts = false;  ///< A mutant: nobody declines.
  bool has_nodes = false;          ///< Each rank is on a node of its own.
  bool dies = false;               ///< Rank 0, at any moment; the loss ends what the others await.
};

enum class Act { kOffer, kAnnounce, kStep, kReadLog, kWantBack, kStop, kDeliver, kDie };
struct Event {
  Act act;
  int rank;
  int from;  ///< kDeliver: whose oldest message to `rank` arrives; else 0.
};

/// Shared memory of a node, aligned as it is there.
class NodeMemory {
 public:
  explicit NodeMemory(int ranks)
      : lines_((DirectRounds::memory_bytes(ranks) + sizeof(Line) - 1) / sizeof(Line)) {}
  std::byte* data() { return reinterpret_cast<std::byte*>(lines_.data()); }
  std::span<std::byte> bytes() { return {data(), lines_.size() * sizeof(Line)}; }

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  std::vector<Line> lines_;
};

constexpr int kNames = 3;

class Model {
 public:
  /// `memory`: of each node.
  Model(const Plan& plan, std::vector<NodeMemory>& memory)
      : plan_(plan), memory_(memory), size_(static_cast<int>(plan.ranks.size())) {
    // A slot's header, and the word: all that tells one state from another.
    for (NodeMemory& node : memory_) {
      for (int rank = 0; rank < size_; ++rank) {
        std::memset(word(node, rank), 0, 64);
        for (int i = 0; i < 2; ++i) std::memset(slot(node, rank, i), 0, 64);
      }
    }
    for (int rank = 0; rank < size_; ++rank) {
      const auto node = static_cast<std::size_t>(plan_.has_nodes ? rank : 0);
      members_.push_back({.rounds = DirectRounds(memory_[node].bytes(), rank, size_, nullptr)});
    }
    for (int rank = 0; plan_.has_nodes && rank < size_; ++rank) {
      relays_.emplace_back(at(rank).rounds, std::vector<int>{rank});
    }
    links_.resize(plan_.has_nodes ? static_cast<std::size_t>(size_ * size_) : 0);
  }
  // Its relays refer to its members.
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// False where the event is not possible, or changes nothing.
  bool can(const Event& event) const {
    const Member& me = at(event.rank);
    const std::string& uses = plan_.ranks[static_cast<std::size_t>(event.rank)].uses;
    const bool may_submit = me.submitted < uses.size() && !is_waiting(event.rank);
    if (event.rank == 0 && has_lost_) return false;
    switch (event.act) {
      case Act::kOffer:
        return may_submit;
      case Act::kAnnounce:
        return may_submit && plan_.may_announce;
      case Act::kStep:
        return true;
      case Act::kReadLog:
        return me.read < log_.size();
      case Act::kWantBack:
        return plan_.wants_back && me.offered && !me.has_wanted;
      case Act::kStop:
        return plan_.stops && !me.has_stopped && me.submitted == uses.size() && !me.offered;
      case Act::kDeliver:
        return plan_.has_nodes && !link(event.from, event.rank).empty();
      case Act::kDie:
        return plan_.dies && event.rank == 0;
    }
    return false;
  }

  void act(const Event& event) {
    apply(event);
    if (!plan_.has_nodes || event.act == Act::kDie) return;  // What it has not sent is lost.
    for (const ControlMessage& message : relay(event.rank).take_news()) {
      for (int peer = 0; peer < size_; ++peer) {
        if (peer != event.rank) link(event.rank, peer).push_back(message);
      }
    }
  }

  void apply(const Event& event) {
    Member& me = at(event.rank);
    switch (event.act) {
      case Act::kOffer:
        return submit(event.rank, true);
      case Act::kAnnounce:
        return submit(event.rank, false);
      case Act::kStep:
        return step(event.rank);
      case Act::kReadLog:
        return read_log(event.rank);
      case Act::kWantBack:
        me.has_wanted = true;
        return me.rounds.want_back();
      case Act::kStop:
        me.has_stopped = true;
        return me.rounds.stop();
      case Act::kDeliver:
        return deliver(event.from, event.rank);
      case Act::kDie:
        has_lost_ = true;
    }
  }

  bool is_over() const {
    for (int rank = 0; rank < size_; ++rank) {
      if (at(rank).over != plan_.ranks[static_cast<std::size_t>(rank)].uses.size()) return false;
    }
    return true;
  }
  bool has_lost() const { return has_lost_; }
  int agreed() const { return agreed_; }
  int from_the_log() const { return static_cast<int>(log_.size()); }

  /// Equal for states from which the same can follow.
  std::string fingerprint() const {
    std::string print;
    const auto put = [&](const void* from, std::size_t bytes) {
      print.append(static_cast<const char*>(from), bytes);
    };
    for (NodeMemory& node : memory_) {
      for (int rank = 0; rank < size_; ++rank) {
        put(word(node, rank), 8);
        for (int i = 0; i < 2; ++i) put(slot(node, rank, i), DirectRounds::kHeaderBytes + 4);
      }
    }
    for (const auto& messages : links_) {
      for (const ControlMessage& message : messages) {
        const Bytes bytes = encode(message);
        put(bytes.data(), bytes.size());
      }
      print += '|';
    }
    for (int rank = 0; rank < size_; ++rank) {
      const Member& me = at(rank);
      print += format_text("{}.{}.{}.{}{}{}", me.submitted, me.over, me.read,
                           me.offered.value_or(-1), me.has_wanted, me.has_stopped);
      for (const Name& name : me.names) {
        print += format_text("/{}.{}.{}", name.in_flight, name.queued, name.over);
      }
    }
    for (const int name : log_) print += static_cast<char>('a' + name);
    for (const int count : announced_) print += static_cast<char>('0' + count);
    if (has_lost_) print += '!';
    return print;
  }

 private:
  struct Name {
    bool in_flight = false;
    int queued = 0;
    int over = 0;  ///< Uses.
  };
  struct Member {
    DirectRounds rounds;
    Name names[kNames] = {};
    std::optional<int> offered = std::nullopt;
    std::size_t submitted = 0;
    std::size_t over = 0;
    std::size_t read = 0;  ///< Of the log.
    bool has_wanted = false;
    bool has_stopped = false;
  };

  static std::byte* word(NodeMemory& node, int rank) { return node.data() + 64 * rank; }
  std::byte* slot(NodeMemory& node, int rank, int which) const {
    return node.data() + 64 * size_ +
           DirectRounds::kSlotBytes * static_cast<std::size_t>(2 * rank + which);
  }
  DirectRelay& relay(int rank) { return relays_[static_cast<std::size_t>(rank)]; }
  std::deque<ControlMessage>& link(int from, int to) {
    return links_[static_cast<std::size_t>(from * size_ + to)];
  }
  const std::deque<ControlMessage>& link(int from, int to) const {
    return links_[static_cast<std::size_t>(from * size_ + to)];
  }
  Member& at(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  const Member& at(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  bool is_waiting(int rank) const {
    return plan_.ranks[static_cast<std::size_t>(rank)].waits && at(rank).over < at(rank).submitted;
  }

  void submit(int rank, bool may_offer) {
    Member& me = at(rank);
    const int which = plan_.ranks[static_cast<std::size_t>(rank)].uses[me.submitted++] - 'a';
    Name& name = me.names[which];
    if (name.in_flight) {
      ++name.queued;
      return;
    }
    name.in_flight = true;
    enter(rank, which, may_offer);
  }

  void enter(int rank, int which, bool may_offer) {
    Member& me = at(rank);
    if (!may_offer || me.has_stopped || !me.rounds.may_offer()) return announce(rank, which);
    const int use = me.names[which].over;
    std::memcpy(me.rounds.my_place(), &use, sizeof(use));
    me.rounds.offer({.key = static_cast<std::uint32_t>(which),
                     .position = static_cast<std::uint32_t>(me.read),
                     .bytes = sizeof(use)});
    me.offered = which;
  }

  void announce(int rank, int which) {
    const auto bit = 1 << rank;
    ASSERT_EQ(announced_[which] & bit, 0) << "announced twice";
    announced_[which] |= bit;
    if (announced_[which] != (1 << size_) - 1) return;
    announced_[which] = 0;
    log_.push_back(which);
  }

  void deliver(int from, int to) {
    const ControlMessage message = std::move(link(from, to).front());
    link(from, to).pop_front();
    if (const auto* brought = std::get_if<Brought>(&message)) {
      EXPECT_TRUE(relay(to).take(*brought)) << "a slot that is still in use";
    } else {
      EXPECT_TRUE(relay(to).take(std::get<WantedBack>(message)));
    }
  }

  void step(int rank) {
    Member& me = at(rank);
    if (!me.offered) {
      me.rounds.answer([&](const DirectRounds::Offer& theirs) {
        const bool is_behind =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(me.read) - theirs.position) < 0;
        return !is_behind && !plan_.ignores_conflicts && me.names[theirs.key].in_flight;
      });
      return;
    }
    const int which = *me.offered;
    switch (me.rounds.judge()) {
      case DirectRounds::Verdict::kOpen:
        return;
      case DirectRounds::Verdict::kAgreed:
        for (int peer = 0; peer < size_; ++peer) {
          int use = -1;
          std::memcpy(&use, me.rounds.place_of(peer), sizeof(use));
          EXPECT_EQ(use, me.names[which].over) << "rank " << peer << " brought another use";
        }
        ++agreed_;
        me.rounds.end_offer();
        me.offered.reset();
        return end(rank, which);
      case DirectRounds::Verdict::kVoid:
        me.rounds.end_offer();
        me.offered.reset();
        return announce(rank, which);
    }
  }

  void read_log(int rank) {
    const int which = log_[at(rank).read++];
    ASSERT_TRUE(at(rank).names[which].in_flight);
    ASSERT_NE(at(rank).offered, which) << "offered and announced";
    end(rank, which);
  }

  void end(int rank, int which) {
    Member& me = at(rank);
    Name& name = me.names[which];
    name.in_flight = false;
    ++name.over;
    ++me.over;
    if (name.queued == 0) return;
    --name.queued;
    name.in_flight = true;
    enter(rank, which, true);
  }

  const Plan& plan_;
  std::vector<NodeMemory>& memory_;
  int size_;
  std::deque<Member> members_;
  std::deque<DirectRelay> relays_;
  std::vector<std::deque<ControlMessage>> links_;  ///< From each rank to each.
  std::vector<int> log_;
  int announced_[kNames] = {};
  int agreed_ = 0;
  bool has_lost_ = false;
};

struct Found {
  std::size_t states = 0;
  int most_agreed = 0;  ///< By all ranks together, in one course.
  int ends = 0;
  bool is_stuck = false;
};

/// Every course of events, by depth, from the beginning each time.
Found explore(const Plan& plan) {
  const int size = static_cast<int>(plan.ranks.size());
  std::vector<NodeMemory> memory(plan.has_nodes ? plan.ranks.size() : 1, NodeMemory(size));
  Found found;
  std::unordered_set<std::string> seen;
  std::vector<Event> course;
  std::vector<Event> events;
  for (const Act act : {Act::kOffer, Act::kAnnounce, Act::kStep, Act::kReadLog, Act::kWantBack,
                        Act::kStop, Act::kDeliver, Act::kDie}) {
    for (int rank = 0; rank < size; ++rank) {
      for (int from = 0; from < (act == Act::kDeliver ? size : 1); ++from) {
        events.push_back({act, rank, from});
      }
    }
  }
  const auto replay = [&] {
    auto model = std::make_unique<Model>(plan, memory);
    for (const Event& event : course) model->act(event);
    return model;
  };
  std::vector<std::vector<Event>> open{{}};
  while (!open.empty() && !testing::Test::HasFailure() && !found.is_stuck) {
    course = std::move(open.back());
    open.pop_back();
    const std::string before = replay()->fingerprint();
    bool moved = false;
    for (const Event& event : events) {
      const auto model = replay();
      if (!model->can(event)) continue;
      model->act(event);
      std::string after = model->fingerprint();
      if (after == before) continue;
      moved = true;
      if (!seen.insert(std::move(after)).second) continue;
      found.most_agreed = std::max(found.most_agreed, model->agreed());
      auto& longer = open.emplace_back(course);
      longer.push_back(event);
    }
    if (moved) continue;
    ++found.ends;
    const auto end = replay();
    found.is_stuck = !end->is_over() && !end->has_lost();
  }
  found.states = seen.size();
  return found;
}

/// Returns the most offers that were agreed, by all ranks together, in one course of events.
int expect_all_end(const Plan& plan) {
  const Found found = explore(plan);
  EXPECT_FALSE(found.is_stuck);
  EXPECT_GT(found.ends, 0);
  testing::Test::RecordProperty("states", static_cast<int>(found.states));
  return found.most_agreed;
}

TEST(DirectRoundsModel, ALoopGoesByRoundsAlone) {
  EXPECT_EQ(expect_all_end({.ranks = {{"abcabc"}, {"abcabc"}, {"abcabc"}}, .may_announce = false}),
            18);
}

TEST(DirectRoundsModel, ARankThatAnnouncesHoldsNobodyUp) {
  const std::string uses = kIsSanitized ? "ab" : "abab";
  const int all = 3 * static_cast<int>(uses.size());
  EXPECT_EQ(expect_all_end({.ranks = {{uses}, {uses}, {uses}}}), all);
}

TEST(DirectRoundsModel, OtherOrdersOfTwoRanksGoByTheLog) {
  EXPECT_GT(expect_all_end({.ranks = {{"abc", false}, {"cab", false}}}), 0);
}

TEST(DirectRoundsModel, OtherOrdersOfThreeRanksGoByTheLog) {
  const std::string first = kIsSanitized ? "a" : "ab";
  const std::string second = kIsSanitized ? "a" : "ba";
  EXPECT_GT(expect_all_end({.ranks = {{first, false}, {second, false}, {first, false}}}), 0);
}

TEST(DirectRoundsModel, AQueuedUseOfANameIsThatOfTheOthers) {
  const std::string uses = kIsSanitized ? "aa" : "aab";
  const int all = 3 * static_cast<int>(uses.size());
  EXPECT_EQ(expect_all_end({.ranks = {{uses, false}, {uses}, {uses, false}}}), all);
}

TEST(DirectRoundsModel, AnOfferThatIsWantedBackIsDecided) {
  EXPECT_EQ(expect_all_end({.ranks = {{"aba"}, {"aba"}}, .wants_back = true}), 6);
}

TEST(DirectRoundsModel, ARankThatHasStoppedHoldsNobodyUp) {
  EXPECT_EQ(expect_all_end({.ranks = {{"abb", false}, {"abb"}}, .stops = true}), 6);
}

TEST(DirectRoundsModel, ALoopOfNodesGoesByRoundsAlone) {
  EXPECT_EQ(
      expect_all_end({.ranks = {{"abab"}, {"abab"}}, .may_announce = false, .has_nodes = true}), 8);
}

TEST(DirectRoundsModel, ANodeThatAnnouncesHoldsNobodyUp) {
  EXPECT_EQ(expect_all_end({.ranks = {{"abab"}, {"abab"}}, .has_nodes = true}), 8);
}

TEST(DirectRoundsModel, OtherOrdersOfNodesGoByTheLog) {
  EXPECT_GT(expect_all_end({.ranks = {{"abc", false}, {"cab", false}}, .has_nodes = true}), 0);
}

TEST(DirectRoundsModel, AnOfferThatANodeWantsBackIsDecided) {
  EXPECT_EQ(expect_all_end({.ranks = {{"aba"}, {"aba"}}, .wants_back = true, .has_nodes = true}),
            6);
}

TEST(DirectRoundsModel, ANodeThatHasStoppedHoldsNobodyUp) {
  EXPECT_EQ(expect_all_end({.ranks = {{"abb", false}, {"abb"}}, .stops = true, .has_nodes = true}),
            6);
}

TEST(DirectRoundsModel, ThreeNodesAgreeOrGoByTheLog) {
  EXPECT_EQ(expect_all_end({.ranks = {{"a"}, {"a"}, {"a"}}, .has_nodes = true}), 3);
  EXPECT_EQ(
      expect_all_end(
          {.ranks = {{"abab"}, {"abab"}, {"abab"}}, .may_announce = false, .has_nodes = true}),
      12);
}

TEST(DirectRoundsModel, OtherOrdersOfThreeNodesGoByTheLog) {
  const std::string first = kIsSanitized ? "a" : "ab";
  const std::string second = kIsSanitized ? "a" : "ba";
  static_cast<void>(expect_all_end(
      {.ranks = {{first}, {second, false}, {first}}, .may_announce = false, .has_nodes = true}));
}

// What a round that is agreed brings stays right, whichever of its events the dead rank came to.
// The others may be left waiting: the loss ends that, and is no part of this.
TEST(DirectRoundsModel, ALossLeavesRightBytesOrNone) {
  EXPECT_GT(expect_all_end({.ranks = {{"ab"}, {"ab"}, {"ab"}}, .dies = true}), 0);
  EXPECT_GT(expect_all_end({.ranks = {{"ab"}, {"ab"}}, .wants_back = true, .dies = true}), 0);
}

TEST(DirectRoundsModel, ALossOfANodeLeavesRightBytesOrNone) {
  EXPECT_GT(expect_all_end({.ranks = {{"ab"}, {"ab"}, {"ab"}},
                            .may_announce = false,
                            .has_nodes = true,
                            .dies = true}),
            0);
  EXPECT_GT(expect_all_end({.ranks = {{"ab"}, {"ab"}}, .has_nodes = true, .dies = true}), 0);
}

TEST(DirectRoundsModel, WithoutDecliningItWouldBeStuck) {
  EXPECT_TRUE(explore({.ranks = {{"ab"}, {"ab"}}, .ignores_conflicts = true}).is_stuck);
}

}  // namespace
}  // namespace hvd
