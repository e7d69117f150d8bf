// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/negotiation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "transport/poller.h"

namespace hvd {
namespace {

using testing::HasSubstr;

/// The only rank of a job: member, leader and root in one.
class NegotiationOfOne : public testing::Test {
 protected:
  static PendingPtr pending(std::string name, Operation operation = Allreduce{}) {
    auto one = std::make_shared<PendingRequest>();
    one->request.name = std::move(name);
    one->request.operation = operation;
    if (kind_of(operation).has_tensors) {
      static float memory[2];
      one->request.tensors.push_back(
          {.input = memory, .output = memory, .dtype = DataType::kFloat32, .shape = {2}});
    }
    one->description = describe_request(one->request);
    return one;
  }

  /// All decisions until nothing moves.
  std::vector<Decision> run() {
    std::vector<Decision> all;
    while (negotiation_.step()) {
      for (Decision& one : decided()) all.push_back(std::move(one));
    }
    for (Decision& one : decided()) all.push_back(std::move(one));
    return all;
  }
  std::vector<Decision> decided() {
    std::vector<Decision> taken;
    negotiation_.take_decisions(taken);
    return taken;
  }

  static Negotiation::Place place() {
    Negotiation::Place one;
    one.node_ranks = {0};
    one.hosts = {"host"};
    one.pids = {1};
    return one;
  }

  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  std::vector<Page> memory_ = std::vector<Page>(Board::bytes(1) / sizeof(Page) + 1);
  std::vector<SleepWord> words_ = std::vector<SleepWord>(1);
  Doorbell doorbell_{words_, std::vector<UniqueFd>(1), 0};
  Negotiation negotiation_{
      place(), Board::map(std::as_writable_bytes(std::span(memory_)), 1), &doorbell_,
      ControlTree(nullptr, {}, {.size = 1}, Clock::now()),
      Coordinator::Options{std::size_t{64} << 20, std::chrono::seconds(60), {}}};
};

TEST_F(NegotiationOfOne, RunsWhatItSubmits) {
  const auto one = pending("t");
  negotiation_.submit(one);
  const auto decisions = run();
  ASSERT_EQ(decisions.size(), 1U);
  const auto* run_together = std::get_if<RunTogether>(&decisions.front());
  ASSERT_NE(run_together, nullptr);
  EXPECT_EQ(run_together->requests.front(), one);
}

TEST_F(NegotiationOfOne, AnnouncesAKnownNameByABit) {
  for (int use = 0; use < 3; ++use) {
    negotiation_.submit(pending("t"));
    EXPECT_EQ(run().size(), 1U);
  }
  EXPECT_EQ(negotiation_.known_names(), 1U);
  EXPECT_LE(negotiation_.announced_in_full(), 2U) << "once new, once to be given an id";
}

TEST_F(NegotiationOfOne, QueuesANameBehindItself) {
  const auto first = pending("t");
  const auto second = pending("t");
  negotiation_.submit(first);
  negotiation_.submit(second);
  std::vector<PendingPtr> order;
  for (const Decision& one : run()) {
    for (const auto& request : std::get<RunTogether>(one).requests) order.push_back(request);
  }
  EXPECT_EQ(order, (std::vector<PendingPtr>{first, second}));
}

TEST_F(NegotiationOfOne, RefusesWhatComesAfterAJoin) {
  negotiation_.submit(pending("join", Join{}));
  negotiation_.submit(pending("late"));
  const auto decisions = decided();
  ASSERT_EQ(decisions.size(), 1U);
  const auto* fail = std::get_if<FailRequest>(&decisions.front());
  ASSERT_NE(fail, nullptr);
  EXPECT_THAT(std::string(fail->status.message()), HasSubstr("comes after the join"));
}

TEST_F(NegotiationOfOne, LeavesOnceAllHaveLeft) {
  negotiation_.leave();
  const auto decisions = run();
  ASSERT_FALSE(decisions.empty());
  EXPECT_TRUE(std::holds_alternative<AllLeft>(decisions.back()));
}

TEST_F(NegotiationOfOne, TellsOneLossOnly) {
  negotiation_.spread_loss(0, "first");
  negotiation_.spread_loss(0, "second");
  const auto decisions = decided();
  ASSERT_EQ(decisions.size(), 1U);
  EXPECT_EQ(std::get<PeerLost>(decisions.front()).text, "first");
}

TEST_F(NegotiationOfOne, CutsAFarewellBetweenCharacters) {
  EXPECT_EQ(negotiation_.farewell_of(0), "");
  std::string text(Board::kFarewellBytes - 1, 'x');
  negotiation_.leave_farewell(text + "\u00e9");
  EXPECT_EQ(negotiation_.farewell_of(0), text);
}

TEST_F(NegotiationOfOne, AsksForWhatAFrozenBucketKeepsBack) {
  const auto gradient = [](const char* name) {
    auto one = pending(name);
    one->description.device = DeviceKind::kCuda;
    return one;
  };
  const auto is_change = [](const Decision& one) {
    return std::holds_alternative<BucketsChanged>(one);
  };
  bool frozen = false;
  for (int step = 0; step < 20 && !frozen; ++step) {
    negotiation_.submit(gradient("a"));
    negotiation_.submit(gradient("b"));
    for (const Decision& one : run()) frozen = frozen || is_change(one);
  }
  ASSERT_TRUE(frozen);
  const auto alone = gradient("a");
  negotiation_.submit(alone);
  EXPECT_TRUE(run().empty()) << "its bucket lacks 'b'";
  const auto due = Clock::now();
  alone->overdue_at.store((due + std::chrono::seconds(1)).time_since_epoch().count());
  EXPECT_EQ(negotiation_.urge(due), due + std::chrono::seconds(1));
  EXPECT_TRUE(run().empty()) << "nobody waits for it yet";
  negotiation_.urge(due + std::chrono::seconds(1));
  const auto decisions = run();
  EXPECT_TRUE(std::any_of(decisions.begin(), decisions.end(), is_change));
  EXPECT_TRUE(std::any_of(decisions.begin(), decisions.end(), [&](const Decision& one) {
    const auto* together = std::get_if<RunTogether>(&one);
    return together != nullptr && together->requests.front() == alone;
  }));
}

TEST_F(NegotiationOfOne, GivesBackWhatItHasNotDecided) {
  const auto one = pending("t");
  const auto queued = pending("t");
  negotiation_.submit(one);
  negotiation_.submit(queued);
  EXPECT_EQ(negotiation_.take_all_requests().size(), 2U);
  EXPECT_TRUE(negotiation_.take_all_requests().empty());
}

}  // namespace
}  // namespace hvd
