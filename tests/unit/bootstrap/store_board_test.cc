// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/store_board.h"

#include <gtest/gtest.h>

#include <string>

#include "store_talk.h"

namespace hvd {
namespace {

TEST(StoreBoard, AnswersAllWhenAllHaveJoined) {
  Talk talk;
  talk.join(10, 0, 2);
  EXPECT_EQ(talk.heard(10), "");
  talk.join(11, 1, 2);
  EXPECT_EQ(talk.heard(10), ok() + "|v0|v1");
  EXPECT_EQ(talk.heard(11), ok() + "|v0|v1");
}

TEST(StoreBoard, NothingOfAnAttemptIsLeftAfterATimeout) {
  Talk talk;
  talk.join(10, 0, 3, 0);
  talk.join(11, 1, 3, 0);
  talk.expire();
  EXPECT_TRUE(says(talk.heard(10), "rank 2 of 3 did not come"));
  EXPECT_TRUE(says(talk.heard(11), "rank 2 of 3 did not come"));
  // The rank that comes late hears at once that the others have given up.
  talk.join(12, 2, 3);
  const std::string late = talk.heard(12);
  EXPECT_TRUE(says(late, "rank 0 (process 0) waited no longer: rank 2 of 3 did not come")) << late;
  // The next try works, in whatever order they come, and has nothing of the first.
  talk.join(22, 2, 3);
  talk.join(21, 1, 3);
  talk.join(20, 0, 3);
  for (const int client : {20, 21, 22}) EXPECT_EQ(talk.heard(client), ok() + "|v0|v1|v2");
}

TEST(StoreBoard, WhoComesBackInTimeIsNotToldOfItsOwnFailure) {
  Talk talk;
  talk.join(10, 0, 2, 0);
  talk.expire();
  talk.heard(10);
  talk.join(20, 0, 2);
  talk.join(21, 1, 2);
  EXPECT_EQ(talk.heard(20), ok() + "|v0|v1");
  EXPECT_EQ(talk.heard(21), ok() + "|v0|v1");
}

TEST(StoreBoard, TellsEachRankOnceOfAFailureBeforeAllHaveJoined) {
  Talk talk;
  talk.join(10, 0, 3);
  talk.fail(11, 1, 3, "rank 1 on jz1 failed to start: no interface");
  EXPECT_TRUE(says(talk.heard(10), "no interface"));
  talk.join(12, 2, 3);
  EXPECT_TRUE(says(talk.heard(12), "no interface"));
  talk.join(20, 0, 3);
  talk.join(22, 2, 3);
  EXPECT_EQ(talk.heard(20) + talk.heard(22), "");
  talk.join(21, 1, 3);
  EXPECT_EQ(talk.heard(21), ok() + "|v0|v1|v2");
}

TEST(StoreBoard, AFailureAnswersAllThatWaitInTheAttempt) {
  Talk talk;
  for (int rank = 0; rank < 3; ++rank) talk.join(static_cast<StoreBoard::Client>(rank), rank, 3);
  for (int client = 0; client < 3; ++client) talk.heard(static_cast<StoreBoard::Client>(client));
  talk.gather(1, 1, 3);
  talk.watch(2);
  EXPECT_EQ(talk.heard(1) + talk.heard(2), "");
  talk.fail(0, 0, 3, "no memory");
  EXPECT_EQ(talk.heard(0), ok());
  EXPECT_TRUE(says(talk.heard(1), "no memory"));
  EXPECT_TRUE(says(talk.heard(2), "no memory"));
  // What fails in consequence has the first cause.
  talk.fail(2, 2, 3, "cannot reach rank 0");
  EXPECT_TRUE(says(talk.heard(2), "no memory"));
  // A rank in the next attempt waits for those of that attempt alone.
  talk.join(30, 0, 3);
  talk.gather(1, 1, 3);
  EXPECT_TRUE(says(talk.heard(1), "no memory"));
  talk.join(31, 1, 3);
  talk.join(32, 2, 3);
  EXPECT_EQ(talk.heard(30), ok() + "|v0|v1|v2");
  talk.gather(30, 0, 3);
  talk.gather(31, 1, 3);
  talk.gather(32, 2, 3);
  EXPECT_EQ(talk.heard(31), ok() + "|v0|v1|v2; " + ok() + "|s30|s31|s32");
}

TEST(StoreBoard, AWatchEndsWithTheNextRequest) {
  Talk talk;
  talk.join(0, 0, 2);
  talk.join(1, 1, 2);
  talk.heard(0);
  talk.watch(0);
  talk.gather(0, 0, 2);
  EXPECT_EQ(talk.heard(0), ok());
  talk.gather(1, 1, 2);
  EXPECT_EQ(talk.heard(0), ok() + "|s0|s1");
  talk.watch(7);
  EXPECT_TRUE(says(talk.heard(7), "joined"));
}

TEST(StoreBoard, ARankThatVanishesIsEverybodysCause) {
  Talk talk;
  talk.join(0, 0, 3);
  talk.join(1, 1, 3);
  talk.forget(1);
  EXPECT_TRUE(says(talk.heard(0), "rank 1 (process 1) ended while the ranks met"));
  for (int rank = 0; rank < 3; ++rank)
    talk.join(static_cast<StoreBoard::Client>(10 + rank), rank, 3);
  talk.heard(10);
  talk.gather(10, 0, 3);
  talk.forget(12);
  EXPECT_TRUE(says(talk.heard(10), "rank 2 (process 2) left before all ranks had started"));
}

TEST(StoreBoard, ATimeoutOfARoundEndsTheAttempt) {
  Talk talk;
  for (int rank = 0; rank < 3; ++rank) talk.join(static_cast<StoreBoard::Client>(rank), rank, 3);
  talk.heard(0);
  talk.heard(1);
  talk.gather(0, 0, 3, 0);
  talk.gather(1, 1, 3);
  talk.expire();
  EXPECT_TRUE(says(talk.heard(0), "rank 2 of 3 did not come"));
  EXPECT_TRUE(says(talk.heard(1), "rank 2 of 3 did not come"));
}

TEST(StoreBoard, TwoProcessesOfOneRankStopAllThatWait) {
  Talk talk;
  talk.join(0, 0, 3);
  talk.join(1, 1, 3);
  talk.gather(5, 1, 3);  // Of no attempt: another round.
  EXPECT_EQ(talk.heard(0), "");
  // The same process, whose first connection was not seen to end, takes its own place.
  talk.join(8, 1, 3);
  EXPECT_EQ(talk.heard(0) + talk.heard(8), "");
  talk.join(2, 2, 4);
  EXPECT_TRUE(says(talk.heard(0), "rank 2 believes in a world of 4 ranks, others in 3"));
  EXPECT_TRUE(says(talk.heard(2), "rank 2 believes in a world of 4 ranks, others in 3"));
}

TEST(StoreBoard, TellsAllThatARankHasEndedNowAndLater) {
  Talk talk;
  talk.join(1, 0, 3);
  talk.end(2, "rank 2 has ended");
  EXPECT_EQ(talk.heard(1), "peer lost rank 2 has ended");
  for (const int client : {2, 3}) {  // it never comes again
    talk.join(static_cast<StoreBoard::Client>(client), 1, 3);
    EXPECT_EQ(talk.heard(static_cast<StoreBoard::Client>(client)), "peer lost rank 2 has ended");
  }
}

TEST(StoreBoard, WhatARankSaidBeforeItsEndIsTheCause) {
  Talk talk;
  talk.join(1, 0, 2);
  talk.fail(2, 1, 2, "no memory");
  talk.end(1, "rank 1 has ended");
  EXPECT_EQ(talk.heard(1), "system error no memory");
}

TEST(StoreBoard, WhoWaitsAgainAfterAFailureHearsOfTheEnd) {
  Talk talk;
  talk.join(1, 0, 2);
  talk.fail(2, 1, 2, "no memory");
  EXPECT_EQ(talk.heard(1), "system error no memory");
  talk.join(3, 0, 2);
  EXPECT_EQ(talk.heard(3), "") << "rank 1 may try again";
  talk.end(1, "rank 1 has ended");
  EXPECT_EQ(talk.heard(3), "system error no memory");
}

TEST(StoreBoard, TellsAllThatTheStoreHasNoRoom) {
  Talk talk;
  talk.join(0, 0, 3);
  talk.exhaust("64 of 64 files are open");
  EXPECT_TRUE(says(talk.heard(0), "64 of 64"));
  talk.join(1, 1, 3);
  EXPECT_TRUE(says(talk.heard(1), "64 of 64"));
  talk.join(11, 1, 3);
  EXPECT_EQ(talk.heard(11), "");
}

}  // namespace
}  // namespace hvd
