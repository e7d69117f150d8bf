// SPDX-License-Identifier: Apache-2.0
#include "collective/select.h"

#include <gtest/gtest.h>

#include <vector>

namespace hvd {
namespace {

const Status kDeclined = error(Code::kUnsupported, "no such device");

TEST(Select, TakesTheFirstThatAccepts) {
  const std::vector<BackendAnswer> answers = {
      {"nccl", kDeclined, ""}, {"shm", Status::ok(), "one node"}, {"tcp", Status::ok(), "any"}};
  const Selection selection = select_backend(answers, "");
  EXPECT_EQ(selection.index, 1U);
  EXPECT_EQ(selection.reason, "shm: one node (declined: nccl: no such device)");
}

TEST(Select, SaysWhyTheFirstOneFits) {
  const std::vector<BackendAnswer> answers = {{"shm", Status::ok(), "one node"}};
  EXPECT_EQ(select_backend(answers, "").reason, "shm: one node");
}

TEST(Select, NamesEveryBackendThatDeclined) {
  const std::vector<BackendAnswer> answers = {{"shm", kDeclined, ""}, {"tcp", kDeclined, ""}};
  const Selection selection = select_backend(answers, "");
  EXPECT_FALSE(selection.index.has_value());
  EXPECT_EQ(selection.reason, "every backend declined: shm: no such device; tcp: no such device");
}

TEST(Select, ObeysTheUser) {
  const std::vector<BackendAnswer> answers = {
      {"shm", Status::ok(), ""}, {"tcp", Status::ok(), ""}, {"nccl", kDeclined, ""}};
  EXPECT_EQ(select_backend(answers, "tcp").index, 1U);
  EXPECT_FALSE(select_backend(answers, "nccl").index.has_value());
  EXPECT_EQ(select_backend(answers, "nonesuch").reason,
            "HVD_BACKEND=nonesuch names no backend of this build");
}

}  // namespace
}  // namespace hvd
