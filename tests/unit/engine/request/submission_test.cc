// SPDX-License-Identifier: Apache-2.0
#include "engine/request/submission.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace hvd {
namespace {

TEST(Submission, NamesComeAgainAfterAllPlaces) {
  Timeline timeline(0, "host");
  Submission submission(timeline);
  for (std::uint64_t call = 1; call <= 2 * Submission::kPlaces; ++call) {
    const auto pending = std::make_shared<PendingRequest>();
    submission.push(pending);
    EXPECT_EQ(pending->call, call);
    EXPECT_TRUE(pending->cacheable);
    EXPECT_EQ(pending->request.name,
              format_text("allreduce.noname.{}", (call - 1) % Submission::kPlaces));
  }
  const auto named = std::make_shared<PendingRequest>();
  named->request.name = "x";
  submission.push(named);
  EXPECT_EQ(named->call, 0U);
}

TEST(Submission, CountsUnnamedRequestsThatOthersMadeWithoutThisRank) {
  Timeline timeline(0, "host");
  Submission submission(timeline);
  const auto next_name = [&](Operation operation, int process_set) {
    const auto pending = std::make_shared<PendingRequest>();
    pending->request.operation = operation;
    pending->request.process_set = process_set;
    submission.push(pending);
    return pending->request.name;
  };
  EXPECT_EQ(next_name(Allreduce{}, 2), "allreduce.noname.0");
  submission.pass_over(2, "allreduce.noname.6");
  submission.pass_over(2, "allreduce.noname.5");
  submission.pass_over(2, "broadcast.noname.1");
  for (const char* other : {"allreduce", "noname.7", "x.noname.9", "allreduce.noname.", ""}) {
    submission.pass_over(2, other);
  }
  EXPECT_EQ(next_name(Allreduce{}, 2), "allreduce.noname.7");
  EXPECT_EQ(next_name(Broadcast{}, 2), "broadcast.noname.2");
  EXPECT_EQ(next_name(Allreduce{}, 0), "allreduce.noname.0");
  for (std::uint64_t i = 0; i < 3 * Submission::kPlaces; ++i) {
    submission.pass_over(2, format_text("allreduce.noname.{}", (8 + i) % Submission::kPlaces));
  }
  EXPECT_EQ(next_name(Allreduce{}, 2), "allreduce.noname.8") << "three times round";
}

TEST(Submission, EachRequestIsTakenOnceInItsOrder) {
  Timeline timeline(0, "host");
  Submission submission(timeline);
  std::vector<PendingPtr> pushed;
  std::vector<PendingPtr> taken;
  EXPECT_FALSE(submission.drain(taken));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 2; ++i) {
      pushed.push_back(std::make_shared<PendingRequest>());
      submission.push(pushed.back());
    }
    EXPECT_TRUE(submission.drain(taken));
    EXPECT_TRUE(submission.is_empty());
    EXPECT_FALSE(submission.drain(taken));
  }
  EXPECT_EQ(taken, pushed);
}

}  // namespace
}  // namespace hvd
