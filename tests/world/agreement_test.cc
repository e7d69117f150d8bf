// SPDX-License-Identifier: Apache-2.0
// Ranks that disagree, that come late, and that leave.
#include <gmock/gmock.h>

#include <string>

#include "world/world.h"

namespace hvd {
namespace {

using testing::HasSubstr;

class AgreementWorld : public testing::TestWithParam<std::vector<int>> {};

/// What one rank submits in a disagreement.
struct Difference {
  const char* name;
  std::function<void(int rank, Request& request)> change;
  std::vector<const char*> words;  ///< That the error must hold.
};

const Difference kDifferences[] = {
    {"shape",
     [](int rank, Request& r) { r.tensors[0].shape = {rank == 1 ? std::int64_t{2} : 4}; },
     {"'t'", "shape", "rank 1 has [2]", "[4]"}},
    {"type",
     [](int rank, Request& r) {
       r.tensors[0].dtype = rank == 1 ? DataType::kInt32 : DataType::kFloat32;
     },
     {"type", "rank 1 has int32", "float32"}},
    {"op",
     [](int rank, Request& r) {
       r.operation = Allreduce{rank == 1 ? ReduceOp::kMax : ReduceOp::kSum, 1, 1};
     },
     {"operation", "max", "sum"}},
    {"scale",
     [](int rank, Request& r) {
       r.operation = Allreduce{ReduceOp::kSum, rank == 1 ? 0.5 : 1, 1};
     },
     {"operation", "0.5"}},
    {"kind",
     [](int rank, Request& r) {
       if (rank == 1) r.operation = Broadcast{0};
     },
     {"kind", "broadcast", "allreduce"}},
    {"root",
     [](int rank, Request& r) { r.operation = Broadcast{rank == 1 ? 1 : 0}; },
     {"operation", "root 1", "root 0"}},
    {"root of reduce",
     [](int rank, Request& r) { r.operation = Reduce{rank == 1 ? 1 : 0}; },
     {"operation", "root 1", "root 0"}},
    {"operation of reducescatter",
     [](int rank, Request& r) {
       r.operation = Reducescatter{rank == 1 ? ReduceOp::kMax : ReduceOp::kSum};
     },
     {"operation", "max", "sum"}},
    {"wire",
     [](int rank, Request& r) {
       if (rank == 1) r.operation = Allreduce{.wire = Wire::kBfloat16};
     },
     {"operation", "as bfloat16"}},
    {"rows of alltoall",
     [](int rank, Request& r) {
       r.operation = Alltoall{};
       r.tensors[0].shape = {0, rank == 1 ? 3 : 2};
     },
     {"shape", "rows of shape [3]", "rows of shape [2]"}},
    {"priority", [](int rank, Request& r) { r.priority = rank; }, {"priority", "rank 1 has"}},
    {"layout", [](int rank, Request& r) { r.tensors[0].layout = rank == 1 ? 7 : 0; }, {"layout"}},
    {"group size",
     [](int rank, Request& r) {
       if (rank == 1) r.tensors.push_back(r.tensors[0]);
     },
     {"number of tensors", "2", "1"}},
};

TEST_P(AgreementWorld, EveryDisagreementIsOneErrorOnEveryRankAndTheEngineWorksOn) {
  World world(GetParam());
  // First with new names, then with names that already have an id.
  for (const bool cached : {false, true}) {
    for (const Difference& difference : kDifferences) {
      world.run([&](int rank, Engine& engine) {
        std::vector<float> values(8, 1.0F);
        Request good = allreduce_request("t", values);
        good.tensors[0].shape = {4};
        if (cached) {
          ASSERT_TRUE(run_request(engine, good).is_ok());
        }
        Request bad = good;
        difference.change(rank, bad);
        const Status status = run_request(engine, bad);
        EXPECT_EQ(status.code(), Code::kMismatch) << difference.name;
        for (const char* word : difference.words) EXPECT_THAT(status.message(), HasSubstr(word));
        const Status after = run_request(engine, good);
        EXPECT_TRUE(after.is_ok()) << after.message();
      });
    }
  }
}

TEST_P(AgreementWorld, AllRanksMayChangeADescriptionTogether) {
  World world(GetParam());
  world.run([](int rank, Engine& engine) {
    for (const std::size_t count : {5, 9, 5, 9, 9, 3}) {
      std::vector<float> values(count, static_cast<float>(rank));
      const Status status = run_request(engine, allreduce_request("loss", values));
      ASSERT_TRUE(status.is_ok()) << status.message();
    }
  });
}

TEST_P(AgreementWorld, ARankThatLeavesFailsWhatWaitsForIt) {
  World world(GetParam());
  const int leaver = world.size() - 1;
  world.run([&](int rank, Engine& engine) {
    std::vector<float> values(3);
    ASSERT_TRUE(run_request(engine, allreduce_request("x", values)).is_ok());
    if (rank == leaver) {
      // The others have not shut down: it leaves without them.
      EXPECT_EQ(engine.shutdown(Deadline::after(std::chrono::milliseconds(1500))).code(),
                Code::kTimeout);
      return;
    }
    for (const char* name : {"x", "new"}) {
      const Status status = run_request(engine, allreduce_request(name, values));
      EXPECT_EQ(status.code(), Code::kAborted);
      EXPECT_THAT(status.message(), HasSubstr("rank " + std::to_string(leaver) + " on host "));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, AgreementWorld,
                         testing::Values(std::vector<int>{2}, std::vector<int>{4},
                                         std::vector<int>{2, 2}, std::vector<int>{2, 1, 1},
                                         std::vector<int>(6, 1)));

}  // namespace
}  // namespace hvd
