// SPDX-License-Identifier: Apache-2.0
#include "engine/request/completion.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace hvd {
namespace {

Request named(std::string name) {
  Request request;
  request.name = std::move(name);
  request.operation = Barrier{};
  return request;
}

TEST(Completion, CountsHandlesFromTheFirstOn) {
  Completion completion(7);
  EXPECT_EQ(completion.add(named("a"))->handle, 7U);
  EXPECT_EQ(completion.add(named("b"))->handle, 8U);
  EXPECT_EQ(completion.find(8).value()->request.name, "b");
}

TEST(Completion, KnowsNoHandleThatWasReleased) {
  Completion completion(1);
  const auto first = completion.add(named("a"))->handle;
  const auto second = completion.add(named("b"))->handle;
  completion.release(first);
  EXPECT_EQ(completion.find(first).status().code(), Code::kInvalidArgument);
  const std::vector<std::uint64_t> both{first, second};
  EXPECT_FALSE(completion.find(both).is_ok()) << "one of them is unknown";
  EXPECT_EQ(completion.release(first), nullptr);
  EXPECT_EQ(completion.release(second)->request.name, "b");
  EXPECT_FALSE(completion.find(second).is_ok());
}

TEST(Completion, KeepsTheFirstOutcome) {
  Completion completion(1);
  const auto pending = completion.add(named("a"));
  completion.finish(pending, Status(Code::kPeerLost, "first"));
  completion.finish(pending, Status::ok());
  EXPECT_EQ(pending->status.code(), Code::kPeerLost);
}

TEST(Completion, CallsBackOnceAndWithoutItsLock) {
  Completion completion(1);
  int calls = 0;
  Request request = named("a");
  request.on_complete = [&](const Status& status) {
    ++calls;
    EXPECT_TRUE(status.is_ok());
    completion.add(named("b"));  // would wait for ever if the lock were held
  };
  const auto pending = completion.add(std::move(request));
  completion.finish(pending, Status::ok());
  EXPECT_TRUE(completion.has_callbacks());
  EXPECT_EQ(calls, 0) << "not before run_callbacks()";
  completion.run_callbacks();
  completion.run_callbacks();
  EXPECT_EQ(calls, 1);
}

TEST(Completion, WakesWhoWaits) {
  Completion completion(1);
  const auto pending = completion.add(named("a"));
  std::thread finisher([&] { completion.finish(pending, Status::ok()); });
  EXPECT_TRUE(completion.wait_until([&] { return pending->done.load(); },
                                    Deadline::after(std::chrono::seconds(60))));
  finisher.join();
  EXPECT_FALSE(
      completion.wait_until([] { return false; }, Deadline::after(std::chrono::milliseconds(1))));
}

}  // namespace
}  // namespace hvd
