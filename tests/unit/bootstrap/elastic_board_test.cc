// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "bootstrap/store_board.h"
#include "store_talk.h"

namespace hvd {
namespace {

RosterPlan two_ranks_and_a_spare() { return {.size = 2, .min_size = 2, .processes = 3}; }

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
  Talk talk({{.size = 2, .min_size = 1, .processes = 2}});
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
  EXPECT_EQ(talk.heard(1), "timeout rank 1 did not come to hvd.init()");
  EXPECT_EQ(talk.heard(3), "") << "a spare waits as long as the job lasts";
}

TEST(ElasticBoard, ALostConnectionTakesTheRequestBack) {
  Talk talk({{.size = 2, .min_size = 2, .processes = 2}});
  talk.enter(1, 0);
  talk.forget(1);
  talk.enter(2, 1);
  EXPECT_EQ(talk.heard(2), "");
  talk.enter(3, 0);
  EXPECT_EQ(talk.heard(3), "ok |rank 0 of 2 in 1");
}

TEST(ElasticBoard, AProcessThatAsksAnewIsAnsweredOnce) {
  Talk talk({{.size = 2, .min_size = 2, .processes = 2}});
  talk.enter(1, 0);
  talk.enter(2, 0);
  EXPECT_EQ(talk.heard(1), "aborted process 0 has asked anew");
  talk.forget(1);
  talk.enter(3, 1);
  EXPECT_EQ(talk.heard(2), "ok |rank 0 of 2 in 1");
}

TEST(ElasticBoard, AChildOfARankDoesNotTakeItsPlace) {
  Talk talk({{.size = 2, .min_size = 2, .processes = 2}});
  talk.enter(1, 0);
  talk.enter(2, 0, 60'000, "its child");
  EXPECT_EQ(talk.heard(2).substr(0, 69),
            "mismatch process 0 of the job came twice: as process 0, and as its ch");
  talk.enter(3, 1);
  EXPECT_EQ(talk.heard(1), "ok |rank 0 of 2 in 1");
}

TEST(ElasticBoard, WhoComesBackSaysWhomItLost) {
  Talk talk(two_ranks_and_a_spare());
  for (int process = 0; process < 3; ++process) {
    talk.enter(static_cast<StoreBoard::Client>(process + 1), process);
  }
  EXPECT_EQ(talk.events(), "0 entered; 1 entered; 1: 0 1; 2 entered");
  talk.end_process(1, false);
  talk.come_back(4, 0, 1, 1);
  EXPECT_EQ(talk.events(), "0 entered without 1; 2: 0 2");
  talk.come_back(5, 0, 1, 1);  // of a membership that is no more: rank 1 is another now
  EXPECT_EQ(talk.events(), "0 entered");
  talk.come_back(6, 2, 2, 0);
  EXPECT_EQ(talk.events(), "2 entered without 0; 3: 0 2");
}

TEST(ElasticBoard, AFailureOfOneRankToStartIsALossToTheOthers) {
  Talk talk(two_ranks_and_a_spare());
  for (int process = 0; process < 3; ++process) {
    talk.enter(static_cast<StoreBoard::Client>(process + 1), process);
  }
  talk.join_in(1, 1, 0, 2);
  talk.join_in(1, 2, 1, 2);
  talk.heard(1);
  talk.watch(1);
  talk.fail(2, 1, 2, "no memory");
  EXPECT_EQ(talk.heard(1), "peer lost rank 1 cannot start: no memory");
}

TEST(ElasticBoard, WhoAttendsAProcessSaysItsEndAndIsToldToKillIt) {
  Talk talk(two_ranks_and_a_spare());
  talk.attend(11, 0, "jz1");
  talk.attend(12, 1, "jz2");
  EXPECT_EQ(talk.events(), "0 came to jz1; 1 came to jz2");
  talk.kill(1);
  EXPECT_EQ(talk.heard(12), "aborted the process is to be killed");
  talk.say_ended(12, 1, 9, ", probably out of memory");
  EXPECT_EQ(talk.heard(12), "");
  talk.add_process();
  talk.answer_end(1, 3);
  EXPECT_EQ(talk.heard(12), ok() + "|3");
  talk.attend(12, 3, "jz2");
  EXPECT_EQ(talk.heard(11) + talk.heard(12), "");
  talk.say_ended(11, 0, 0);
  EXPECT_EQ(talk.heard(11), ok()) << "its first request";
  talk.answer_end(0, -1);
  EXPECT_EQ(talk.heard(11), ok());
  EXPECT_EQ(talk.events(), "1 ended with 9, probably out of memory; 3 came to jz2; 0 ended with 0");
  talk.forget(11);
  EXPECT_EQ(talk.events(), "");
}

TEST(ElasticBoard, WhoAttendsAProcessAndGoesWithoutAWordTakesItAlong) {
  Talk talk(two_ranks_and_a_spare());
  talk.kill(0);
  talk.attend(11, 0, "jz1");
  EXPECT_EQ(talk.heard(11), "aborted the process is to be killed") << "as it was to be before";
  talk.forget(11);
  EXPECT_EQ(talk.events(), "0 came to jz1; 0 is gone");
  talk.attend(12, 0, "jz1");
  EXPECT_EQ(talk.heard(12), "invalid argument the job has no process 0 that nobody attends yet");
}

TEST(ElasticBoard, RankZeroHearsOfNewcomers) {
  Talk talk({{.size = 2, .min_size = 1, .processes = 2}});
  talk.enter(1, 0);
  talk.enter(2, 1);
  talk.join_in(1, 1, 0, 2);
  talk.join_in(1, 2, 1, 2);
  talk.heard(1);
  talk.await_newcomers(1);
  EXPECT_EQ(talk.heard(1), "");
  talk.end_process(1, false);
  talk.enter(3, 0);
  EXPECT_EQ(talk.heard(3), "ok |rank 0 of 1 in 2");
  talk.await_newcomers(3);
  talk.add_process();
  EXPECT_EQ(talk.heard(3), "");
  talk.enter(4, 2);
  EXPECT_EQ(talk.heard(3), ok());
  talk.await_newcomers(3);
  EXPECT_EQ(talk.heard(3), ok()) << "at once, as it still waits";
  talk.enter(3, 0);
  EXPECT_EQ(talk.heard(3), "ok |rank 0 of 2 in 3");
  EXPECT_EQ(talk.heard(4), "ok |rank 1 of 2 in 3");
  talk.await_newcomers(3);
  talk.forget(3);
  EXPECT_EQ(talk.heard(3), "");
}

TEST(ElasticBoard, RankZeroHearsThatThereAreToBeFewerOrMore) {
  Talk talk({{.size = 2, .min_size = 1, .processes = 2}});
  talk.enter(1, 0);
  talk.enter(2, 1);
  talk.join_in(1, 1, 0, 2);
  talk.join_in(1, 2, 1, 2);
  talk.heard(1);
  talk.heard(2);
  talk.await_newcomers(1);
  talk.aim_at(1);
  EXPECT_EQ(talk.heard(1), ok());
  talk.enter(1, 0);
  talk.enter(2, 1);
  EXPECT_EQ(talk.heard(1), "ok |rank 0 of 1 in 2");
  EXPECT_EQ(talk.heard(2), "") << "it waits as a spare";
  talk.await_newcomers(1);
  EXPECT_EQ(talk.heard(1), "");
  talk.aim_at(2);
  EXPECT_EQ(talk.heard(1), ok());
  talk.enter(1, 0);
  EXPECT_EQ(talk.heard(2), "ok |rank 1 of 2 in 3");
}

TEST(ElasticBoard, WhoWasToStartAProcessAndIsGoneTakesItAlong) {
  Talk talk(two_ranks_and_a_spare());
  talk.attend(11, 0, "jz1");
  talk.attend(12, 1, "jz2");
  talk.say_ended(11, 0, 9);
  talk.say_ended(12, 1, 9);
  talk.add_process();
  talk.add_process();
  talk.forget(11);
  talk.answer_end(0, 3);
  talk.answer_end(1, 4);
  talk.forget(12);
  EXPECT_EQ(talk.events(),
            "0 came to jz1; 1 came to jz2; 0 ended with 9; 1 ended with 9; 3 is gone; 4 is gone");
}

TEST(ElasticBoard, OneAttendsOneProcess) {
  Talk talk(two_ranks_and_a_spare());
  talk.attend(11, 0, "jz1");
  for (const int process : {0, 3, 7}) {
    talk.attend(12, process, "jz2");
    EXPECT_TRUE(says(talk.heard(12), "nobody attends yet")) << process;
  }
  talk.say_ended(12, 0, 0);
  EXPECT_TRUE(says(talk.heard(12), "is not for this one to say"));
  EXPECT_EQ(talk.events(), "0 came to jz1");
  Talk ordinary;
  ordinary.attend(1, 0, "jz1");
  EXPECT_EQ(ordinary.heard(1), "invalid argument the job is not elastic");
}

TEST(ElasticBoard, ARankThatComesBackWaitsAsLongAsTheJobLasts) {
  Talk talk(two_ranks_and_a_spare());
  for (int process = 0; process < 2; ++process) {
    talk.enter(static_cast<StoreBoard::Client>(process + 1), process);
  }
  talk.heard(1);
  talk.enter(1, 0, 0);
  talk.expire();
  EXPECT_EQ(talk.heard(1), "") << "whoever serves the store ends those that do not come";
}

TEST(ElasticBoard, AProgramThatEndsWellAfterALossHasNot) {
  Talk talk({{.size = 2, .min_size = 1, .processes = 2}});
  talk.enter(1, 0);
  talk.enter(2, 1);
  talk.heard(1);
  talk.end_process(1, true);
  talk.come_back(3, 0, 1, 1);
  EXPECT_EQ(talk.heard(3), "");
  talk.end_process(1, false);
  EXPECT_EQ(talk.heard(3), "ok |rank 0 of 1 in 2");
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
