// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/control_message.h"

#include <gtest/gtest.h>

#include <random>

namespace hvd {
namespace {

std::vector<ControlMessage> one_of_each() {
  Description description;
  description.operation = Allreduce{ReduceOp::kAverage, 0.5, 2.0};
  description.tensors.push_back({DataType::kBfloat16, 42, {3, 0, 5}});
  description.tensors.push_back({DataType::kInt64, 0, {}});
  return {Announce{"fc.weight", false, description, RankSet::all(70)},
          Ready{{1, 2, 4'000}},
          Partial{7, RankSet::all(70), 48'000},
          Leave{3, {{2, "x", 1}, {0, "", 70}}},
          Define{9, "x", description},
          Run{{1, 2}, "y", 3, 69, 4, description},
          Failure{"x", Code::kMismatch, "text", 4},
          Left{4, true},
          Lost{5, "died"},
          Shutdown{},
          Heartbeat{},
          SetAdded{6, RankSet::all(70)},
          SetRemoved{7},
          Joining{8, 9, 10, true, {{9, "y", 3}}},
          Joined{11, 12},
          JoinEnd{13, 14, Code::kMismatch, "text"},
          Urge{15, "text"},
          Frozen{16, {1, 2, 4'000}, {1, 3}},
          Thawed{17, "text"},
          GiveUp{"text"},
          Evict{{18, 19}},
          Evicted{20},
          Farewell{"its program ended with ValueError"},
          Brought{21, 22, 23, 24, {std::byte{1}, std::byte{2}}},
          WantedBack{25, 26}};
}

TEST(ControlMessage, EveryKindReadsBackAsItWasWritten) {
  ASSERT_EQ(one_of_each().size(), std::variant_size_v<ControlMessage>);
  for (const ControlMessage& message : one_of_each()) {
    const auto again = decode_control_message(encode(message), 70);
    ASSERT_TRUE(again.is_ok()) << again.status().message();
    EXPECT_EQ(again.value().index(), message.index());
    EXPECT_EQ(encode(again.value()), encode(message));
  }
}

TEST(ControlMessage, EveryOperationReadsBackAsItWasWritten) {
  const Operation operations[] = {Allreduce{ReduceOp::kBitXor, 0.5, 2, Wire::kBfloat16},
                                  Allgather{},
                                  Broadcast{69},
                                  Barrier{},
                                  Reducescatter{ReduceOp::kMin, 3, 4},
                                  Alltoall{},
                                  Reduce{3, ReduceOp::kProduct, 5, 6},
                                  Gather{4},
                                  Scatter{5},
                                  Join{}};
  static_assert(std::size(operations) == std::variant_size_v<Operation>);
  for (const Operation& operation : operations) {
    Announce announce{"x", true, {}, RankSet::all(70)};
    announce.description.operation = operation;
    announce.description.priority = -3;
    const Bytes bytes = encode(ControlMessage(announce));
    const auto again = decode_control_message(bytes, 70);
    ASSERT_TRUE(again.is_ok()) << again.status().message();
    EXPECT_EQ(std::get<Announce>(again.value()).description, announce.description)
        << describe(operation);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(
          decode_control_message(std::span<const std::byte>(bytes).first(size), 70).is_ok());
    }
  }
}

TEST(ControlMessage, EveryTruncationIsAnError) {
  for (const ControlMessage& message : one_of_each()) {
    const Bytes bytes = encode(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(
          decode_control_message(std::span<const std::byte>(bytes).first(size), 70).is_ok());
    }
  }
}

TEST(ControlMessage, SurvivesRandomAndDamagedBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes = encode(one_of_each()[random() % std::variant_size_v<ControlMessage>]);
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    (void)decode_control_message(bytes, 70);
  }
}

TEST(ControlMessage, RefusesBucketsThatDoNotHoldTheirIds) {
  for (const std::vector<std::uint32_t>& ends :
       {std::vector<std::uint32_t>{1}, {1, 3}, {2, 1, 2}, {}, {4'000'000'000}}) {
    EXPECT_FALSE(decode_control_message(encode(Frozen{0, {1, 2}, ends}), 70).is_ok());
  }
  EXPECT_TRUE(decode_control_message(encode(Frozen{0, {}, {}}), 70).is_ok());
}

TEST(ControlMessage, RefusesRanksThatDoNotExist) {
  EXPECT_FALSE(decode_control_message(encode(Leave{70, {}}), 70).is_ok());
  EXPECT_FALSE(decode_control_message(encode(Lost{-1, ""}), 70).is_ok());
  EXPECT_FALSE(decode_control_message(encode(SetRemoved{-1}), 70).is_ok());
}

}  // namespace
}  // namespace hvd
