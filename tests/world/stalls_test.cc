// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for others which submit nothing.
#include <gmock/gmock.h>

#include <future>
#include <string>

#include "world/captured_errors.h"
#include "world/world.h"

namespace hvd {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::milliseconds kWarning{300};

EngineOptions impatient() {
  EngineOptions options = World::quick_options();
  options.stall_warning = kWarning;
  return options;
}

int count_of(std::string_view part, const std::string& text) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class StallsWorld : public testing::TestWithParam<std::vector<int>> {
 protected:
  /// Waits until all of `parts` were reported; the request stays in flight.
  void expect_report(Engine& engine, Engine::Handle handle, const std::vector<std::string>& parts) {
    const Deadline deadline = soon();
    for (const std::string& part : parts) {
      while (new_text().find(part) == std::string::npos) {
        ASSERT_FALSE(deadline.has_passed()) << part << " is not in: " << new_text();
        ASSERT_EQ(engine.wait(handle, Deadline::after(std::chrono::milliseconds(20))).code(),
                  Code::kTimeout);
      }
    }
  }

  std::string new_text() const { return errors_.text().substr(seen_); }

  CapturedErrors errors_;
  std::size_t seen_ = 0;
};

TEST_P(StallsWorld, AreReportedByOneRankOfTheJobForAllTensors) {
  World world(GetParam(), impatient());
  const int late = world.size() - 1;
  for (const bool are_known : {false, true}) {
    SCOPED_TRACE(are_known ? "known names" : "new names");
    std::promise<void> reported;
    const std::shared_future<void> may_go = reported.get_future().share();
    const auto began = Clock::now();
    seen_ = errors_.text().size();
    world.run([&](int rank, Engine& engine) {
      std::vector<std::vector<float>> values(20, std::vector<float>(3));
      if (rank == late) {
        ASSERT_EQ(may_go.wait_for(std::chrono::seconds(120)), std::future_status::ready);
      }
      std::vector<Engine::Handle> handles;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::string name = "t" + std::to_string(i);
        handles.push_back(engine.submit(allreduce_request(name, values[i])).value());
      }
      if (rank == 0) {
        const std::string whom = format_text("20 tensors wait for rank {} (host ", late);
        const std::string why = format_text("rank {} (host ", late);
        // Which three are named depends on who came to rank 0 first.
        expect_report(engine, handles[0], {whom, "(allreduce(sum)) and 17 more", why, "own code"});
        reported.set_value();
      }
      for (const auto handle : handles) EXPECT_TRUE(engine.wait(handle, soon()).is_ok());
    });
    const auto most = (Clock::now() - began) / kWarning + 1;
    EXPECT_LE(count_of(" stall: ", new_text()), most) << new_text();
    EXPECT_THAT(new_text(), Not(HasSubstr("different orders")));
  }
}

TEST_P(StallsWorld, OfRanksThatCallInOppositeOrderSaySo) {
  World world(GetParam(), impatient());
  const int other = world.size() - 1;
  std::promise<void> reported;
  const std::shared_future<void> may_go = reported.get_future().share();
  world.run([&](int rank, Engine& engine) {
    std::vector<float> a(3);
    std::vector<float> b(3);
    // Each submits the second only after the report: as a program that waits for the first.
    const bool is_swapped = rank == other;
    const auto first =
        engine.submit(is_swapped ? allreduce_request("b", b) : allreduce_request("a", a)).value();
    if (rank == 0) {
      expect_report(engine, first,
                    {"these ranks call in different orders: ",
                     format_text("rank 0 waits in 'a' for rank {}", other),
                     format_text("rank {} waits in 'b' for rank 0", other)});
      reported.set_value();
    }
    ASSERT_EQ(may_go.wait_for(std::chrono::seconds(120)), std::future_status::ready);
    const auto second =
        engine.submit(is_swapped ? allreduce_request("a", a) : allreduce_request("b", b)).value();
    EXPECT_TRUE(engine.wait(first, soon()).is_ok());
    EXPECT_TRUE(engine.wait(second, soon()).is_ok());
  });
}

TEST_P(StallsWorld, EndTheEpochOnEveryRankAfterTheTimeForIt) {
  EngineOptions options = impatient();
  options.stall_shutdown = 8 * kWarning;
  World world(GetParam(), options);
  const int late = world.size() - 1;
  std::promise<void> ended;
  const std::shared_future<void> may_go = ended.get_future().share();
  world.run([&](int rank, Engine& engine) {
    std::vector<float> values(3);
    ASSERT_TRUE(run_request(engine, allreduce_request("known", values)).is_ok());
    if (rank == late) {
      ASSERT_EQ(may_go.wait_for(std::chrono::seconds(120)), std::future_status::ready);
    }
    Status status = Status::ok();
    for (const Deadline deadline = soon(); status.is_ok() && !deadline.has_passed();) {
      // The late one may not have heard yet; the others have, and fail at once.
      const auto handle = engine.submit(allreduce_request("known", values));
      status = handle.is_ok() ? engine.wait(handle.value(), soon()) : handle.status();
    }
    if (rank == 0) ended.set_value();
    EXPECT_EQ(status.code(), Code::kAborted) << rank << ": " << status.message();
    EXPECT_THAT(status.message(), HasSubstr("HVD_STALL_SHUTDOWN_TIME_SECONDS (2.4)"));
    EXPECT_THAT(status.message(), HasSubstr(format_text("rank {} (host ", late)));
    EXPECT_THAT(status.message(), HasSubstr("'known' (allreduce(sum))"));
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, StallsWorld,
                         testing::Values(std::vector<int>{2}, std::vector<int>{4},
                                         std::vector<int>{2, 2}, std::vector<int>{2, 1, 1},
                                         std::vector<int>(6, 1)));

}  // namespace
}  // namespace hvd
