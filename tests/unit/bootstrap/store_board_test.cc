// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/store_board.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hvd {
namespace {

using store_message::Request;
using store_message::Verb;

/// The answers of a board by client, as "code text|value|value".
class Talk {
 public:
  explicit Talk(std::optional<RosterPlan> plan = std::nullopt) : board_(std::move(plan)) {}

  /// As a process of an elastic job.
  void enter(StoreBoard::Client client, int process, std::uint64_t timeout_ms = 60'000,
             const std::string& who = "") {
    take(board_.handle(client, {.verb = Verb::kEnter,
                                .who = who.empty() ? "process " + std::to_string(process) : who,
                                .rank = process,
                                .size = process + 1,
                                .timeout_ms = timeout_ms}));
  }
  /// As a rank of that membership.
  void join_in(std::uint64_t epoch, StoreBoard::Client client, int rank, int size) {
    take(board_.handle(client, {.verb = Verb::kJoin,
                                .key = "join",
                                .value = "v" + std::to_string(rank),
                                .who = "rank " + std::to_string(rank),
                                .rank = rank,
                                .size = size,
                                .timeout_ms = 60'000,
                                .epoch = epoch}));
  }
  void end_process(int process, bool well) { take(board_.rank_ended(process, Status(), well)); }
  void end_job(const std::string& why) { take(board_.end_job(Status(Code::kAborted, why))); }

  /// Joins as a rank; the client is of this try alone.
  void join(StoreBoard::Client client, int rank, int size, std::uint64_t timeout_ms = 60'000) {
    take(board_.handle(client, {.verb = Verb::kJoin,
                                .key = "join",
                                .value = "v" + std::to_string(rank),
                                .who = "process " + std::to_string(rank),
                                .rank = rank,
                                .size = size,
                                .timeout_ms = timeout_ms}));
  }
  void gather(StoreBoard::Client client, int rank, int size, std::uint64_t timeout_ms = 60'000) {
    take(board_.handle(client, {.verb = Verb::kGather,
                                .key = "shared",
                                .value = "s" + std::to_string(client),
                                .rank = rank,
                                .size = size,
                                .timeout_ms = timeout_ms}));
  }
  void fail(StoreBoard::Client client, int rank, int size, const std::string& why) {
    take(board_.handle(
        client,
        {.verb = Verb::kFail, .value = why, .code = Code::kSystem, .rank = rank, .size = size}));
  }
  void watch(StoreBoard::Client client) { take(board_.handle(client, {.verb = Verb::kWatch})); }
  void forget(StoreBoard::Client client) { take(board_.forget(client)); }
  void expire() { take(board_.expire()); }
  void end(int rank, const std::string& why) {
    take(board_.rank_ended(rank, Status(Code::kPeerLost, why)));
  }
  void exhaust(const std::string& why) { take(board_.fail_joining(Status(Code::kSystem, why))); }

  /// What the client was answered since the last question; "" for nothing.
  std::string heard(StoreBoard::Client client) {
    std::string text = std::move(heard_[client]);
    heard_[client].clear();
    return text;
  }

 private:
  void take(const std::vector<StoreBoard::Answer>& answers) {
    for (const auto& [client, reply] : answers) {
      std::string& text = heard_[client];
      if (!text.empty()) text += "; ";
      text += std::string(code_name(reply.code)) + " " + reply.text;
      for (const std::string& value : reply.values) text += "|" + shown(value);
    }
  }

  /// A place as "rank 0 of 2 in 1"; another value as it is.
  static std::string shown(const std::string& value) {
    const auto place = store_message::decode_place(value);
    if (!place.is_ok()) return value;
    return "rank " + std::to_string(place.value().rank) + " of " +
           std::to_string(place.value().size) + " in " + std::to_string(place.value().epoch);
  }

  StoreBoard board_;
  std::map<StoreBoard::Client, std::string> heard_;
};

std::string ok() { return std::string(code_name(Code::kOk)) + " "; }

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

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

RosterPlan two_ranks_and_a_spare() { return {.size = 2, .min_size = 2, .nodes = {0, 0, 0}}; }

TEST(ElasticBoard, GivesPlacesThatRanksJoinBy) {
  Talk talk(two_ranks_and_a_spare());
  talk.enter(1, 0);
  talk.enter(3, 2);
  EXPECT_EQ(talk.heard(1), "");
  talk.enter(2, 1);
  EXPECT_EQ(talk.heard(1), "ok |rank 0 of 2 in 1");
  EXPECT_EQ(talk.heard(2), "ok |rank 1 of 2 in 1");
  EXPECT_EQ(talk.heard(3), "");
  talk.join_in(1, 1, 0, 2);
  talk.join_in(1, 2, 1, 2);
  EXPECT_EQ(talk.heard(1), "ok |v0|v1");
  EXPECT_EQ(talk.heard(2), "ok |v0|v1");
}

TEST(ElasticBoard, ALossWhileRanksMeetSendsThemBackForAPlace) {
  Talk talk(two_ranks_and_a_spare());
  for (int process = 0; process < 3; ++process) {
    talk.enter(static_cast<StoreBoard::Client>(process + 1), process);
  }
  talk.join_in(1, 1, 0, 2);
  talk.heard(1);
  talk.end_process(1, false);
  EXPECT_EQ(talk.heard(1), "peer lost a rank left while the ranks of this membership met");
  talk.join_in(1, 1, 0, 2);  // of a rank that comes later
  EXPECT_EQ(talk.heard(1), "peer lost a rank left while the ranks of this membership met");
  talk.enter(1, 0);
  EXPECT_EQ(talk.heard(1), "ok |rank 0 of 2 in 2");
  EXPECT_EQ(talk.heard(3), "ok |rank 1 of 2 in 2");
}

TEST(ElasticBoard, TheEndOfTheJobReachesRanksAndNotSpares) {
  Talk talk(two_ranks_and_a_spare());
  for (int process = 0; process < 3; ++process) {
    talk.enter(static_cast<StoreBoard::Client>(process + 1), process);
  }
  talk.heard(1);
  talk.enter(1, 0);
  talk.end_process(1, true);
  EXPECT_EQ(talk.heard(1), "aborted the job ends: a rank has finished its program already");
  talk.enter(1, 0);
  EXPECT_EQ(talk.heard(1), "aborted the job ends: a rank has finished its program already");
  EXPECT_EQ(talk.heard(3), "");
}

TEST(ElasticBoard, TheLauncherMayEndTheJob) {
  Talk talk({{.size = 2, .min_size = 1, .nodes = {0, 0}}});
  talk.enter(1, 0);
  talk.end_job("enough");
  EXPECT_EQ(talk.heard(1), "aborted enough");
  talk.enter(2, 1);
  EXPECT_EQ(talk.heard(2), "aborted enough");
}

TEST(ElasticBoard, ARankWaitsNoLongerThanItWanted) {
  Talk talk(two_ranks_and_a_spare());
  talk.enter(1, 0, 0);
  talk.enter(3, 2, 0);
  talk.expire();
  EXPECT_EQ(talk.heard(1), "timeout rank 1 did not come to hvd.init() again");
  EXPECT_EQ(talk.heard(3), "") << "a spare waits as long as the job lasts";
}

TEST(ElasticBoard, ALostConnectionTakesTheRequestBack) {
  Talk talk({{.size = 2, .min_size = 2, .nodes = {0, 0}}});
  talk.enter(1, 0);
  talk.forget(1);
  talk.enter(2, 1);
  EXPECT_EQ(talk.heard(2), "");
  talk.enter(3, 0);
  EXPECT_EQ(talk.heard(3), "ok |rank 0 of 2 in 1");
}

TEST(ElasticBoard, AProcessThatAsksAnewIsAnsweredOnce) {
  Talk talk({{.size = 2, .min_size = 2, .nodes = {0, 0}}});
  talk.enter(1, 0);
  talk.enter(2, 0);
  EXPECT_EQ(talk.heard(1), "aborted process 0 has asked anew");
  talk.forget(1);
  talk.enter(3, 1);
  EXPECT_EQ(talk.heard(2), "ok |rank 0 of 2 in 1");
}

TEST(ElasticBoard, AChildOfARankDoesNotTakeItsPlace) {
  Talk talk({{.size = 2, .min_size = 2, .nodes = {0, 0}}});
  talk.enter(1, 0);
  talk.enter(2, 0, 60'000, "its child");
  EXPECT_EQ(talk.heard(2).substr(0, 69),
            "mismatch process 0 of the job came twice: as process 0, and as its ch");
  talk.enter(3, 1);
  EXPECT_EQ(talk.heard(1), "ok |rank 0 of 2 in 1");
}

TEST(ElasticBoard, StrangersAndOrdinaryJobsHaveNoPlaces) {
  Talk elastic(two_ranks_and_a_spare());
  elastic.enter(1, 3);
  EXPECT_EQ(elastic.heard(1),
            "invalid argument the job has no process 3 that lives; who is it that asks?");
  Talk ordinary;
  ordinary.enter(1, 0);
  EXPECT_EQ(ordinary.heard(1), "invalid argument the job is not elastic");
}

}  // namespace
}  // namespace hvd
