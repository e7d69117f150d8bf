// SPDX-License-Identifier: Apache-2.0
#include "engine/request/kept_requests.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hvd {
namespace {

PendingPtr done_under(const std::string& text) {
  auto pending = std::make_shared<PendingRequest>();
  pending->key = text;
  pending->key_hash = KeptRequests::key_of(text).hash;
  pending->done.store(true);
  return pending;
}

TEST(KeptRequests, GivesBackWhatWasKeptOnce) {
  KeptRequests requests;
  const PendingPtr first = done_under("first");
  requests.keep(first);
  requests.keep(done_under("second"));
  EXPECT_EQ(requests.take(KeptRequests::key_of("third")), nullptr);
  EXPECT_EQ(requests.take(KeptRequests::key_of("first")), first);
  EXPECT_EQ(requests.take(KeptRequests::key_of("first")), nullptr) << "it is under way";
  EXPECT_NE(requests.take(KeptRequests::key_of("second")), nullptr);
}

TEST(KeptRequests, KeepsTheLatestOfTwoAtOnePlace) {
  KeptRequests requests;
  const std::weak_ptr<PendingRequest> first = [&] {
    const PendingPtr one = done_under("one");
    requests.keep(one);
    return one;
  }();
  EXPECT_FALSE(first.expired());
  const PendingPtr second = done_under("one");
  requests.keep(second);
  EXPECT_TRUE(first.expired()) << "nobody needs it any more";
  EXPECT_EQ(requests.take(KeptRequests::key_of("one")), second);
}

TEST(KeptRequests, KeepsNothingWithoutAKeyUnderWayOrFailed) {
  KeptRequests requests;
  requests.keep(done_under(""));
  EXPECT_EQ(requests.take(KeptRequests::key_of("")), nullptr);
  PendingPtr under_way = done_under("under way");
  under_way->done.store(false);
  requests.keep(std::move(under_way));
  EXPECT_EQ(requests.take(KeptRequests::key_of("under way")), nullptr);
  PendingPtr failed = done_under("failed");
  failed->status = Status(Code::kMismatch, "ranks disagree");
  requests.keep(std::move(failed));
  EXPECT_EQ(requests.take(KeptRequests::key_of("failed")), nullptr);
}

TEST(KeptRequests, KeepsNothingReleasedThatACallerStillHolds) {
  KeptRequests requests;
  PendingPtr waiter = done_under("by handle");
  requests.keep_released(PendingPtr(waiter));
  EXPECT_EQ(requests.take(KeptRequests::key_of("by handle")), nullptr);
  requests.keep_released(std::move(waiter));
  EXPECT_NE(requests.take(KeptRequests::key_of("by handle")), nullptr);
}

TEST(KeptRequests, FreesTheRowsOfTheLastTime) {
  KeptRequests requests;
  PendingPtr pending = done_under("rows");
  pending->gathered.resize(1);
  std::byte given{};
  pending->gathered.front() = {.shape = {100}, .rows = {50, 50}, .data = {}, .given = &given};
  pending->gathered.front().data.reset(new std::byte[100]);
  requests.keep(std::move(pending));
  const GatherResult left =
      std::move(requests.take(KeptRequests::key_of("rows"))->gathered.front());
  EXPECT_EQ(left.begin(), nullptr);
  EXPECT_TRUE(left.shape.empty());
  EXPECT_TRUE(left.rows.empty());
}

TEST(KeptRequests, OneRequestIsOneThreadsOnly) {
  KeptRequests requests;
  std::atomic<bool> was_shared{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 20'000; ++turn) {
        PendingPtr pending = requests.take(KeptRequests::key_of("same"));
        if (pending == nullptr) pending = done_under("same");
        // Whoever has it counts in it, without a lock.
        const std::uint64_t before = pending->handle;
        ++pending->handle;
        if (pending->handle != before + 1) was_shared.store(true);
        requests.keep(std::move(pending));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(was_shared.load());
}

TEST(PendingRequest, BeginsAgainAsItWasMade) {
  PendingRequest pending;
  pending.request.name = "allreduce.noname.7";
  pending.call = 8;
  pending.direct_key = 3;
  pending.gpu.batches_to_enqueue = 1;
  pending.overdue_at.store(5);
  pending.done.store(true);
  pending.begin_again();
  EXPECT_EQ(pending.request.name, "") << "the next call of its kind has another name";
  EXPECT_EQ(pending.call, 0U);
  EXPECT_EQ(pending.direct_key, 0U) << "that of the other name";
  EXPECT_EQ(pending.gpu.batches_to_enqueue, 0);
  EXPECT_EQ(pending.overdue_at.load(), PendingRequest::kNeverOverdue) << "nobody waits yet";
  EXPECT_FALSE(pending.done.load());
  pending.request.name = "given";
  pending.direct_key = 3;
  pending.begin_again();
  EXPECT_EQ(pending.request.name, "given");
  EXPECT_EQ(pending.direct_key, 3U);
}

}  // namespace
}  // namespace hvd
