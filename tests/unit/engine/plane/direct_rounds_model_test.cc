// SPDX-License-Identifier: Apache-2.0
// What direct rounds promise, in every order of events of small worlds: the real DirectRounds, and
// around them names, queues and a log in a few lines, as negotiation_direct.cc has them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/format.h"
#include "engine/plane/direct_rounds.h"

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
};

enum class Act { kOffer, kAnnounce, kStep, kReadLog, kWantBack, kStop };
struct Event {
  Act act;
  int rank;
};

constexpr int kNames = 3;
// gcc says that it sanitizes; clang compiles this for no other purpose here.
#if defined(__SANITIZE_THREAD__) || defined(__clang__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

class Model {
 public:
  Model(const Plan& plan, std::vector<std::byte>& memory)
      : plan_(plan), memory_(memory), size_(static_cast<int>(plan.ranks.size())) {
    // A slot's header, and the word: all that tells one state from another.
    for (int rank = 0; rank < size_; ++rank) {
      std::memset(word(rank), 0, 64);
      for (int i = 0; i < 2; ++i) std::memset(slot(rank, i), 0, 64);
    }
    members_.reserve(static_cast<std::size_t>(size_));
    for (int rank = 0; rank < size_; ++rank) {
      members_.push_back({.rounds = DirectRounds(memory_, rank, size_, nullptr)});
    }
  }

  /// False where the event is not possible, or changes nothing.
  bool can(const Event& event) const {
    const Member& me = at(event.rank);
    const std::string& uses = plan_.ranks[static_cast<std::size_t>(event.rank)].uses;
    const bool may_submit = me.submitted < uses.size() && !is_waiting(event.rank);
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
    }
    return false;
  }

  void act(const Event& event) {
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
    }
  }

  bool is_over() const {
    for (int rank = 0; rank < size_; ++rank) {
      if (at(rank).over != plan_.ranks[static_cast<std::size_t>(rank)].uses.size()) return false;
    }
    return true;
  }
  int agreed() const { return agreed_; }
  int from_the_log() const { return static_cast<int>(log_.size()); }

  /// Equal for states from which the same can follow.
  std::string fingerprint() const {
    std::string print;
    const auto put = [&](const void* from, std::size_t bytes) {
      print.append(static_cast<const char*>(from), bytes);
    };
    for (int rank = 0; rank < size_; ++rank) {
      put(word(rank), 8);
      for (int i = 0; i < 2; ++i) put(slot(rank, i), 24);
      const Member& me = at(rank);
      print += format_text("{}.{}.{}.{}{}{}", me.submitted, me.over, me.read,
                           me.offered.value_or(-1), me.has_wanted, me.has_stopped);
      for (const Name& name : me.names) {
        print += format_text("/{}.{}.{}", name.in_flight, name.queued, name.over);
      }
    }
    for (const int name : log_) print += static_cast<char>('a' + name);
    for (const int count : announced_) print += static_cast<char>('0' + count);
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

  std::byte* word(int rank) const { return memory_.data() + 64 * rank; }
  std::byte* slot(int rank, int which) const {
    return memory_.data() + 64 * size_ +
           DirectRounds::kSlotBytes * static_cast<std::size_t>(2 * rank + which);
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
                     .position = static_cast<std::uint32_t>(me.read)});
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
  std::vector<std::byte>& memory_;
  int size_;
  std::vector<Member> members_;
  std::vector<int> log_;
  int announced_[kNames] = {};
  int agreed_ = 0;
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
  std::vector<std::byte> memory(DirectRounds::memory_bytes(size) + 64);
  void* start = memory.data();
  std::size_t room = memory.size();
  std::align(64, DirectRounds::memory_bytes(size), start, room);
  memory.erase(memory.begin(), memory.begin() + (static_cast<std::byte*>(start) - memory.data()));
  Found found;
  std::unordered_set<std::string> seen;
  std::vector<Event> course;
  const auto replay = [&] {
    Model model(plan, memory);
    for (const Event& event : course) model.act(event);
    return model;
  };
  std::vector<std::vector<Event>> open{{}};
  while (!open.empty() && !testing::Test::HasFailure() && !found.is_stuck) {
    course = std::move(open.back());
    open.pop_back();
    const std::string before = replay().fingerprint();
    bool moved = false;
    for (const Act act :
         {Act::kOffer, Act::kAnnounce, Act::kStep, Act::kReadLog, Act::kWantBack, Act::kStop}) {
      for (int rank = 0; rank < size; ++rank) {
        Model model = replay();
        if (!model.can({act, rank})) continue;
        model.act({act, rank});
        std::string after = model.fingerprint();
        if (after == before) continue;
        moved = true;
        if (!seen.insert(std::move(after)).second) continue;
        found.most_agreed = std::max(found.most_agreed, model.agreed());
        auto& longer = open.emplace_back(course);
        longer.push_back({act, rank});
      }
    }
    if (moved) continue;
    const Model model = replay();
    ++found.ends;
    found.is_stuck = !model.is_over();
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
  EXPECT_GT(expect_all_end({.ranks = {{"ab", false}, {"ba", false}, {"ab", false}}}), 0);
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

TEST(DirectRoundsModel, WithoutDecliningItWouldBeStuck) {
  EXPECT_TRUE(explore({.ranks = {{"ab"}, {"ab"}}, .ignores_conflicts = true}).is_stuck);
}

}  // namespace
}  // namespace hvd
