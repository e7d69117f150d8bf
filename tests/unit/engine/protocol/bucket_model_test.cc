// SPDX-License-Identifier: Apache-2.0
// Frozen buckets and urges in every order of events of a small world: two ranks, the real
// Coordinator, and ranks in a few lines that submit, wait, urge and leave.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../sanitized.h"
#include "engine/protocol/coordinator.h"

namespace hvd::bucket_model {
namespace {

constexpr Clock::time_point kNow{};
constexpr int kRanks = 2;

/// What a rank does once buckets are frozen, an operation a letter; then it waits for all that it
/// has submitted, and leaves.
///   a b c n  submits the name, of which n is new;
///   W        waits for all that it has submitted;
///   A        waits for a;
///   X        waits for the other rank outside of hvd, until that has done its A.
using Program = std::string;

enum class Urges {
  kNone,
  kWhereAPartIsMissing,
  kAnyway,  ///< Also where the rank has submitted the whole bucket.
};

struct Plan {
  std::array<Program, kRanks> programs;
  Urges urges = Urges::kWhereAPartIsMissing;
  DeviceKind device = DeviceKind::kCuda;  ///< CPU: what comes of it without buckets.
  std::size_t fusion_bytes = 64;
};

struct Rank {
  Program program;
  std::size_t next = 0;  ///< Operation.
  bool has_left = false;
  std::size_t read = 0;  ///< Entries of the log.
  std::set<char> current;
  std::map<char, int> queued;
  std::map<char, int> announced;
  std::vector<std::vector<char>> buckets;
  bool has_urged = false;

  bool has_ended() const { return next == program.size(); }
  bool is_waiting() const {
    if (!has_ended() && program[next] == 'A') return current.contains('a');
    return (has_ended() || program[next] == 'W') && !current.empty() && !has_left;
  }
  bool has_done(char operation) const { return program.find(operation) < next; }
};

class World {
 public:
  World(const Plan& plan)
      : plan_(plan), coordinator_({"x", "y"}, {plan.fusion_bytes, std::chrono::milliseconds(0)}) {
    for (int step = 0; step < 2; ++step) {
      for (const char name : {'a', 'b', 'c'}) {
        for (int rank = 0; rank < kRanks; ++rank) submit(rank, name);
      }
      decide();
      for (int rank = 0; rank < kRanks; ++rank) {
        while (hear(rank)) continue;
      }
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks_[static_cast<std::size_t>(rank)].program =
          plan.programs[static_cast<std::size_t>(rank)];
    }
  }

  static constexpr int kEvents = 3 * kRanks;
  /// False where the event is not possible now.
  bool happen(int event) {
    const int rank = event % kRanks;
    const bool possible = event / kRanks == 0   ? work(rank)
                          : event / kRanks == 1 ? hear(rank)
                                                : urge(rank);
    if (possible) decide();
    return possible;
  }
  bool is_over() const { return !log_.empty() && std::holds_alternative<Shutdown>(log_.back()); }
  bool all_have_read() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const Rank& rank) { return rank.read == log_.size(); });
  }
  bool has_run_a_bucket() const { return has_run_a_bucket_; }
  /// How often each name has been decided.
  const std::map<char, int>& decided() const { return decided_; }
  /// Equal in two worlds only where the same can happen in both.
  std::string key() const {
    std::string text = log_text_;
    for (const Rank& rank : ranks_) {
      text += format_text("|{} {} {} {}", rank.next, rank.read, rank.has_left, rank.has_urged);
    }
    return text;
  }

 private:
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  bool work(int rank) {
    Rank& me = at(rank);
    if (me.has_left || me.is_waiting()) return false;
    if (me.has_ended()) {
      me.has_left = true;
      coordinator_.leave({rank, {}});
      return true;
    }
    const char operation = me.program[me.next];
    if (operation == 'X') {
      if (!at(1 - rank).has_done('A')) return false;
    } else if (operation != 'W' && operation != 'A') {
      submit(rank, operation);
    }
    ++me.next;
    return true;
  }

  void submit(int rank, char name) {
    Rank& me = at(rank);
    if (me.current.contains(name)) {
      ++me.queued[name];
    } else {
      announce(rank, name);
    }
  }

  void announce(int rank, char name) {
    Rank& me = at(rank);
    me.current.insert(name);
    ++me.announced[name];
    RankSet ranks(kRanks);
    ranks.add(rank);
    if (const auto id = ids_.find(name); id != ids_.end()) {
      coordinator_.ready(id->second, ranks, kNow);
      return;
    }
    Description description;
    description.device = plan_.device;
    description.tensors.push_back({DataType::kFloat32, 0, {1}});
    coordinator_.announce({std::string(1, name), true, description, ranks}, kNow);
  }

  /// Reads one entry of the log.
  bool hear(int rank) {
    Rank& me = at(rank);
    if (me.read == log_.size()) return false;
    const ControlMessage entry = log_[me.read++];
    if (const auto* run = std::get_if<hvd::Run>(&entry)) {
      for (const auto id : run->ids) end_use(rank, names_.at(id));
    } else if (const auto* failure = std::get_if<Failure>(&entry)) {
      end_use(rank, failure->name.front());
    } else if (const auto* frozen = std::get_if<Frozen>(&entry)) {
      me.buckets.clear();
      me.has_urged = false;
      std::size_t begin = 0;
      for (const auto end : frozen->ends) {
        auto& bucket = me.buckets.emplace_back();
        for (; begin < end; ++begin) bucket.push_back(names_.at(frozen->ids[begin]));
      }
    } else if (std::holds_alternative<Thawed>(entry)) {
      me.buckets.clear();
    }
    return true;
  }

  void end_use(int rank, char name) {
    Rank& me = at(rank);
    if (me.current.erase(name) == 0 || me.queued[name] == 0) return;
    --me.queued[name];
    announce(rank, name);
  }

  /// As Negotiation::urge(), at any moment while it waits.
  bool urge(int rank) {
    Rank& me = at(rank);
    if (plan_.urges == Urges::kNone || !me.is_waiting() || me.has_urged) return false;
    for (const auto& bucket : me.buckets) {
      const auto submitted = std::count_if(bucket.begin(), bucket.end(),
                                           [&](char name) { return me.current.contains(name); });
      const bool whole = submitted == static_cast<std::ptrdiff_t>(bucket.size());
      if (submitted == 0 || (whole && plan_.urges != Urges::kAnyway)) continue;
      me.has_urged = true;
      coordinator_.urge({0, format_text("rank {} waits", rank)});
      return true;
    }
    return false;
  }

  void decide() {
    for (ControlMessage& entry : coordinator_.decide()) {
      if (const auto* define = std::get_if<Define>(&entry)) {
        ids_[define->name.front()] = define->id;
        names_[define->id] = define->name.front();
      } else if (const auto* run = std::get_if<hvd::Run>(&entry)) {
        has_run_a_bucket_ = has_run_a_bucket_ || run->bucket != 0;
        for (const auto id : run->ids) check_consent(names_.at(id));
      } else if (const auto* failure = std::get_if<Failure>(&entry)) {
        ++decided_[failure->name.front()];
      }
      log_text_ += format_text("{}", entry.index());
      if (const auto* run = std::get_if<hvd::Run>(&entry)) {
        for (const auto id : run->ids) log_text_ += names_.at(id);
      }
      EXPECT_FALSE(is_over()) << "an entry after the last";
      log_.push_back(std::move(entry));
    }
  }

  /// Promise 2: what runs has been announced by every rank.
  void check_consent(char name) {
    const int use = ++decided_[name];
    for (Rank& rank : ranks_) {
      EXPECT_GE(rank.announced[name], use) << name << " runs without the word of a rank";
    }
  }

  Plan plan_;
  Coordinator coordinator_;
  std::array<Rank, kRanks> ranks_;
  std::map<char, std::uint32_t> ids_;
  std::map<std::uint32_t, char> names_;
  std::map<char, int> decided_;
  std::vector<ControlMessage> log_;
  std::string log_text_;
  bool has_run_a_bucket_ = false;
};

/// What came of all orders of events.
struct Found {
  int worlds = 0;   ///< Different ones.
  int buckets = 0;  ///< Ends before which a bucket ran.
  int stuck = 0;    ///< Ends at which a rank waits for ever.
  /// At all ends: how often each name had been decided, and whether something was stuck.
  std::set<std::pair<std::map<char, int>, bool>> ends;
};

Found explore(const Plan& plan) {
  Found found;
  std::vector<std::vector<int>> open{{}};
  std::set<std::string> known;
  while (!open.empty()) {
    const std::vector<int> events = std::move(open.back());
    open.pop_back();
    const auto replay = [&] {
      auto world = std::make_unique<World>(plan);
      for (const int event : events) world->happen(event);
      return world;
    };
    auto world = replay();
    bool moved = false;
    for (int event = 0; event < World::kEvents; ++event) {
      if (!world->happen(event)) continue;
      moved = true;
      if (known.insert(world->key()).second) {
        open.push_back(events);
        open.back().push_back(event);
      }
      world = replay();
    }
    ++found.worlds;
    if (moved) continue;
    const bool stuck = !world->is_over() || !world->all_have_read();
    found.stuck += stuck ? 1 : 0;
    found.buckets += world->has_run_a_bucket() ? 1 : 0;
    found.ends.emplace(world->decided(), stuck);
  }
  return found;
}

TEST(BucketModel, WhateverTheOrderOfEventsNothingIsStuckThatWouldNotBeWithoutBuckets) {
  const Program programs[] = {"",     "a",   "ac",   "abc",   "cba",   "aWb",
                              "bWac", "anb", "acab", "aWaWb", "abcabc"};
  int buckets = 0;
  int worlds = 0;
  for (const Program& first : programs) {
    for (const Program& second : programs) {
      if (kIsSanitized && first.size() + second.size() > 6) continue;
      Plan plan{{first, second}};
      plan.device = DeviceKind::kCpu;
      const Found before = explore(plan);
      plan.device = DeviceKind::kCuda;
      // Buckets: a, b and c; a and b, and c.
      for (const std::size_t fusion_bytes : {64, 8}) {
        plan.fusion_bytes = fusion_bytes;
        const Found found = explore(plan);
        EXPECT_EQ(found.ends, before.ends) << first << " and " << second;
        buckets += found.buckets;
        worlds += found.worlds;
      }
    }
  }
  EXPECT_GT(buckets, kIsSanitized ? 20 : 50) << "ends of " << worlds << " worlds";
}

TEST(BucketModel, WithoutUrgesARankWouldWaitForEver) {
  EXPECT_EQ(explore({{"abc", "acW"}}).stuck, 0);
  EXPECT_GT(explore({{"abc", "acW"}, Urges::kNone}).stuck, 0) << "for a, which waits for b";
  EXPECT_EQ(explore({{"aWbc", "abc"}}).stuck, 0);
  EXPECT_GT(explore({{"aWbc", "abc"}, Urges::kNone}).stuck, 0);
}

TEST(BucketModel, ARankThatIsHeldUpOutsideOfHvdNeedsTheUrgeOfTheOther) {
  EXPECT_GT(explore({{"abcA", "aXbc"}}).stuck, 0);
  EXPECT_EQ(explore({{"abcA", "aXbc"}, Urges::kAnyway}).stuck, 0);
}

}  // namespace
}  // namespace hvd::bucket_model
