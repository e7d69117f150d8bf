// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/timeline_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hvd {
namespace {

using Json = nlohmann::json;
using Kind = TimelineEvent::Kind;
using testing::ElementsAre;

Clock::time_point at(std::int64_t ns) { return Clock::time_point(std::chrono::nanoseconds(ns)); }

TimelineEvent submitted(std::uint64_t request, std::string name, std::int64_t ns = 1'000) {
  TimelineEvent event;
  event.kind = Kind::kSubmitted;
  event.request = request;
  event.operation = "allreduce";
  event.text = std::move(name);
  event.number = 64;
  event.time = at(ns);
  return event;
}

TimelineEvent later(Kind kind, std::uint64_t request, std::int64_t ns, std::uint64_t number = 0) {
  TimelineEvent event;
  event.kind = kind;
  event.request = request;
  event.number = number;
  event.time = at(ns);
  return event;
}

/// "B name", "E" and so on of a row, in order.
std::vector<std::string> row_of(const Json& trace, int tid) {
  std::vector<std::string> found;
  for (const Json& event : trace) {
    if (event.value("tid", 0) != tid || event["ph"] == "M") continue;
    std::string entry = event["ph"];
    if (event.contains("name")) entry += " " + event["name"].get<std::string>();
    found.push_back(entry);
  }
  return found;
}

/// Titles of the rows, by number from 1.
std::vector<std::string> titles(const Json& trace) {
  std::vector<std::string> found;
  for (const Json& event : trace) {
    if (event.value("name", "") == "thread_name") found.push_back(event["args"]["name"]);
  }
  return found;
}

class TimelineTextTest : public testing::Test {
 protected:
  TimelineTextTest() { text_ = form_.begin("h\"ost", at(0), 1.5); }
  void add(const TimelineEvent& event) { form_.append(event, text_); }
  Json whole(std::uint64_t left_out = 0) {
    return Json::parse(text_ + form_.end(left_out, at(9'999)));
  }

  TimelineText form_{3};
  std::string text_;
};

TEST_F(TimelineTextTest, IsAJsonArrayWithoutAnyEvent) {
  const Json trace = whole();
  EXPECT_EQ(trace[0]["args"]["name"], "rank 3 on h\"ost");
  EXPECT_EQ(trace[2]["args"]["unix_seconds"], 1.5);
  EXPECT_EQ(trace.back()["args"], (Json{{"requests", 0}, {"left_out", 0}}));
}

TEST_F(TimelineTextTest, ShowsThePhasesOfARequestOneAfterTheOther) {
  add(submitted(1, "w"));
  add(later(Kind::kDecided, 1, 2'500, 7));
  add(later(Kind::kStarted, 1, 3'000));
  add(later(Kind::kStarted, 1, 3'500));
  add(later(Kind::kCompleted, 1, 4'001));
  const Json trace = whole();
  EXPECT_THAT(row_of(trace, 1), ElementsAre("B w", "B NEGOTIATE_ALLREDUCE", "E", "B QUEUE", "E",
                                            "B ALLREDUCE", "E", "E"));
  const Json& submission = trace[4];
  EXPECT_EQ(submission["pid"], 3);
  EXPECT_EQ(submission["ts"], 1.0);
  EXPECT_EQ(submission["args"], (Json{{"process_set", 0}, {"bytes", 64}}));
  EXPECT_EQ(trace[7]["args"]["batch"], 7);
  const Json& completion = trace[trace.size() - 2];
  EXPECT_EQ(completion["ts"], 4.001);
  EXPECT_EQ(completion["args"]["outcome"], "ok");
}

TEST_F(TimelineTextTest, GivesANameOneRowAndAnotherToAUseThatOverlaps) {
  add(submitted(1, "w"));
  add(submitted(2, "w"));
  add(later(Kind::kCompleted, 1, 2'000));
  add(submitted(3, "w"));
  TimelineEvent unnamed = submitted(4, "allreduce.noname.17");
  unnamed.has_own_row = false;
  unnamed.process_set = 2;
  add(unnamed);
  const Json trace = whole();
  EXPECT_THAT(titles(trace), ElementsAre("w", "w #2", "allreduce without a name (process set 2)"));
  EXPECT_THAT(row_of(trace, 1), ElementsAre("B w", "B NEGOTIATE_ALLREDUCE", "E", "E", "B w",
                                            "B NEGOTIATE_ALLREDUCE", "E", "E"));
  EXPECT_EQ(row_of(trace, 3).front(), "B allreduce.noname.17");
}

TEST_F(TimelineTextTest, SharesRowsAmongTooManyNames) {
  for (std::uint64_t i = 1; i <= TimelineText::kMostNames + 5; ++i) {
    add(submitted(i, std::to_string(i)));
    add(later(Kind::kCompleted, i, 2'000));
  }
  const auto rows = titles(whole());
  EXPECT_EQ(rows.size(), TimelineText::kMostNames + 1);
  EXPECT_EQ(rows.back(), "further names");
}

TEST_F(TimelineTextTest, SaysWhatFailedAndWhatWasInFlight) {
  add(submitted(1, "w"));
  TimelineEvent failed = later(Kind::kCompleted, 1, 2'000);
  failed.code = Code::kMismatch;
  failed.text = "'w' \\ \n";
  add(failed);
  add(submitted(2, "v"));
  const Json trace = whole(12);
  EXPECT_EQ(trace[7]["args"], (Json{{"outcome", "mismatch"}, {"error", "'w' \\ \n"}}));
  EXPECT_EQ(trace[trace.size() - 2]["args"]["outcome"], "in flight");
  EXPECT_EQ(trace.back()["args"], (Json{{"requests", 2}, {"left_out", 12}}));
}

TEST_F(TimelineTextTest, PassesOverRequestsFromBeforeItBegan) {
  const std::string before = text_;
  for (const Kind kind : {Kind::kDecided, Kind::kStarted, Kind::kCompleted}) {
    add(later(kind, 5, 2'000));
  }
  EXPECT_EQ(text_, before);
}

TEST_F(TimelineTextTest, ShowsWaitsByThreadAndBatches) {
  TimelineEvent wait = later(Kind::kWaited, 0, 5'000, 4711);
  wait.length = std::chrono::nanoseconds(2'000);
  wait.text = "w";
  add(wait);
  TimelineEvent batch = later(Kind::kBatch, 0, 6'000, 3);
  batch.requests = 2;
  add(batch);
  add(batch);
  std::string said;
  form_.append_left_out(9, at(7'000), said);
  text_ += said;
  const Json trace = whole();
  EXPECT_THAT(titles(trace), ElementsAre("waits of thread 4711", "batches"));
  EXPECT_EQ(trace[4]["ts"], 3.0);
  EXPECT_EQ(trace[4]["dur"], 2.0);
  EXPECT_THAT(row_of(trace, 2), ElementsAre("i batch 3", "i batch 3"));
  EXPECT_EQ(trace[trace.size() - 2]["args"]["left_out"], 9);
}

TEST(JsonString, IsValidWhateverTheBytesAre) {
  const struct {
    std::string_view bytes;
    std::string_view read;
  } cases[] = {
      {"", ""},
      {"fc.weight/0", "fc.weight/0"},
      {"\"\\\x01\n", "\"\\\x01\n"},
      {"é€😀", "é€😀"},
      {"a\xff"
       "b",
       "a�b"},
      {"\xc0\x80", "��"},            // longer than need be
      {"\xed\xa0\x80", "���"},       // half of a pair
      {"\xf4\x90\x80\x80", "����"},  // beyond the last
      {"cut \xe2\x82", "cut ��"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Json::parse(json_string(c.bytes)).get<std::string>(), c.read);
  }
}

}  // namespace
}  // namespace hvd
