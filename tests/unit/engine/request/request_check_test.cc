// SPDX-License-Identifier: Apache-2.0
#include "engine/request/request_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace hvd {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Rank 1 of 3.
Communicator three() {
  Communicator world;
  world.rank = 1;
  world.size = 3;
  return world;
}

struct Sample {
  float memory[12] = {};
  Request request;

  explicit Sample(Operation operation, std::vector<std::int64_t> splits = {}) {
    request.name = "t";
    request.operation = operation;
    request.tensors = {{.input = memory,
                        .output = memory,
                        .dtype = DataType::kFloat32,
                        .shape = {6, 2},
                        .layout = 0,
                        .splits = std::move(splits)}};
  }
};

TEST(RequestCheck, AcceptsEachOperation) {
  const Operation operations[] = {Allreduce{},     Allgather{}, Broadcast{2}, Alltoall{},
                                  Reducescatter{}, Reduce{1},   Gather{0},    Scatter{1}};
  for (const Operation& operation : operations) {
    const Sample sample(operation);
    EXPECT_TRUE(check_request(sample.request, three()).is_ok()) << describe(operation);
  }
}

TEST(RequestCheck, AsksForMemoryOnlyWhereItIsUsed) {
  struct Case {
    Operation operation;
    bool without_input;
    bool without_output;
  };
  const Case cases[] = {
      {Allreduce{}, false, false}, {Reducescatter{}, false, true}, {Alltoall{}, false, true},
      {Reduce{1}, false, false},   {Reduce{0}, false, true},       {Gather{1}, false, true},
      {Scatter{1}, false, true},   {Scatter{0}, true, true},
  };
  for (const Case& c : cases) {
    Sample sample(c.operation);
    sample.request.tensors[0].input = nullptr;
    EXPECT_EQ(check_request(sample.request, three()).is_ok(), c.without_input)
        << describe(c.operation);
    sample.request.tensors[0] = {.input = sample.memory, .shape = {6, 2}};
    EXPECT_EQ(check_request(sample.request, three()).is_ok(), c.without_output)
        << describe(c.operation);
  }
}

TEST(RequestCheck, RefusesWhatIsWrongOnThisRankAlone) {
  struct Case {
    Operation operation;
    std::vector<std::int64_t> splits;
    const char* words;
  };
  const Case cases[] = {
      {Reduce{3}, {}, "root 3 is not a rank"},
      {Gather{-1}, {}, "root -1"},
      {Scatter{7}, {}, "root 7"},
      {Alltoall{}, {1, 2}, "2 splits; pass one for each of the 3 ranks"},
      {Alltoall{}, {4, 2, 1}, "hold 1 where 0 of 6 rows are left"},
      {Alltoall{}, {4, -1, 1}, "hold -1"},
      {Scatter{1}, {7, 0, 0}, "hold 7 where 6 of 6"},
      {Gather{1}, {2, 2, 2}, "takes no splits"},
      {Join{}, {}, "rank 1: join 't' with 1 tensors; it takes none"},
      {Barrier{}, {}, "barrier 't' with 1 tensors; it takes none"},
  };
  for (const Case& c : cases) {
    const Sample sample(c.operation, c.splits);
    const Status status = check_request(sample.request, three());
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << describe(c.operation);
    EXPECT_THAT(status.message(), HasSubstr(c.words));
  }
  Sample odd(Alltoall{});
  odd.request.tensors[0].shape = {5, 2};
  EXPECT_THAT(check_request(odd.request, three()).message(), HasSubstr("5 rows among 3 ranks"));
}

TEST(RequestCheck, RefusesTensorsThatCannotBeMeant) {
  struct Case {
    std::function<void(Request&)> spoil;
    const char* words;
  };
  constexpr std::int64_t kHalf = std::numeric_limits<std::int64_t>::max() / 2;
  const Case cases[] = {
      {[](Request& r) { r.tensors.clear(); },
       "rank 1: allreduce 't' with 0 tensors; pass at least"},
      {[](Request& r) {
         r.tensors[0].shape = {2, -3};
       },
       "allreduce 't': a dimension is -3"},
      {[](Request& r) {
         r.tensors[0].shape = {kHalf, kHalf};
       },
       "2^63"},
      {[](Request& r) {
         r.tensors[0].shape = {kHalf, 4, 0};
       },
       "2^63"},
      {[](Request& r) { r.tensors[0].shape = {kHalf / 2 + 1}; }, "2^63"},
      {[](Request& r) { r.tensors[0].input = nullptr; }, "'t': input is null"},
      {[](Request& r) { r.tensors[0].output = nullptr; }, "'t': output is null"},
      {[](Request& r) {
         r.tensors.push_back(r.tensors[0]);
         r.tensors[1].output = nullptr;
       },
       "rank 1: allreduce 't' [1]: output is null"},
  };
  for (const Case& one : cases) {
    Sample sample(Allreduce{});
    one.spoil(sample.request);
    const Status status = check_request(sample.request, three());
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << one.words;
    EXPECT_THAT(status.message(), HasSubstr(one.words));
  }
  EXPECT_TRUE(check_shape({.shape = {kHalf / 2}}).is_ok());
  EXPECT_TRUE(check_shape({.dtype = DataType::kUint8, .shape = {2, kHalf}}).is_ok());
  EXPECT_TRUE(check_shape({.shape = {}}).is_ok());
  EXPECT_TRUE(check_shape({.shape = {0, 7}}).is_ok());
}

TEST(RequestCheck, RefusesAddressesThatAGpuCannotReach) {
  struct Case {
    Operation operation;
    DataType dtype;
    std::uintptr_t input;  ///< Past a multiple of 16.
    std::uintptr_t output;
    const char* words;  ///< "": accepted.
  };
  const Case cases[] = {
      {Allreduce{}, DataType::kFloat32, 0, 0, ""},
      {Allreduce{}, DataType::kFloat32, 4, 12, ""},
      {Allreduce{}, DataType::kFloat32, 2, 0, "'t': the input is at 0x"},
      {Allreduce{}, DataType::kFloat32, 0, 1, "the output is at 0x"},
      {Allreduce{}, DataType::kFloat64, 4, 0, "float64 (8 bytes) only at multiples of 8"},
      {Broadcast{2}, DataType::kFloat16, 0, 3, "clone()"},
      {Allreduce{}, DataType::kUint8, 1, 3, ""},
      {Allgather{}, DataType::kBool, 1, 0, ""},
      {Allgather{}, DataType::kComplex64, 4, 0, ""},
      {Allgather{}, DataType::kComplex64, 2, 0, "complex64 (8 bytes) only at multiples of 4"},
      {Allgather{}, DataType::kComplex128, 8, 0, ""},
      {Allgather{}, DataType::kFloat32, 0, 1, ""},  // the library makes the output
      {Reducescatter{}, DataType::kFloat32, 0, 1, "output"},
      {Reduce{1}, DataType::kFloat32, 0, 1, "output"},
      {Reduce{0}, DataType::kFloat32, 0, 1, ""},
      {Scatter{0}, DataType::kFloat32, 1, 1, ""},
  };
  alignas(16) static std::byte memory[256];
  for (const Case& c : cases) {
    Sample sample(c.operation);
    Tensor& tensor = sample.request.tensors[0];
    tensor.dtype = c.dtype;
    tensor.input = memory + c.input;
    tensor.output = memory + 128 + c.output;
    EXPECT_TRUE(check_request(sample.request, three()).is_ok()) << "CPUs reach any address";
    sample.request.device = {DeviceKind::kCuda, 0};
    const Status status = check_request(sample.request, three());
    const std::string text = describe(c.operation) + " of " + std::string(name_of(c.dtype));
    if (*c.words == '\0') {
      EXPECT_TRUE(status.is_ok()) << text << ": " << status.message();
      continue;
    }
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("rank 1: "), HasSubstr(" 't': "), HasSubstr(c.words)));
    tensor.shape = {0, 2};
    EXPECT_TRUE(check_request(sample.request, three()).is_ok()) << "nothing is reached";
  }
  Sample given(Allgather{});
  given.request.device = {DeviceKind::kCuda, 0};
  given.request.tensors[0].input = memory;
  given.request.tensors[0].output = memory + 130;
  given.request.tensors[0].output_bytes = 100;
  for (const std::int64_t rows : {6, 0}) {
    given.request.tensors[0].shape = {rows, 2};
    EXPECT_THAT(check_request(given.request, three()).message(),
                HasSubstr(format_text("the output is at {};", given.request.tensors[0].output)));
  }
}

TEST(RequestCheck, TakesMemoryForRowsThatIsNotTheInputs) {
  struct Case {
    Operation operation;
    std::size_t begin;  // of the output in the sample's memory, which is the input; 12: behind it
    std::size_t bytes;
    const char* words;
  };
  const Case cases[] = {
      {Allgather{}, 12, 16, nullptr},
      {Alltoall{}, 12, 16, nullptr},
      {Allgather{}, 0, 16, "overlaps"},
      {Gather{1}, 11, 4, "overlaps"},
      {Allreduce{}, 12, 16, "it takes no output_bytes"},
  };
  for (const Case& c : cases) {
    float memory[16] = {};
    Request request;
    request.operation = c.operation;
    request.tensors = {{.input = memory, .output = memory + c.begin, .shape = {6, 2}}};
    request.tensors[0].output_bytes = c.bytes;
    const Status status = check_request(request, three());
    EXPECT_EQ(status.is_ok(), c.words == nullptr) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(c.words == nullptr ? "" : c.words));
  }
  Request nowhere;
  nowhere.operation = Allgather{};
  nowhere.tensors = {{.input = &nowhere, .shape = {1}, .output_bytes = 8}};
  EXPECT_THAT(check_request(nowhere, three()).message(), HasSubstr("output is null"));
}

TEST(RequestCheck, LeavesRowsBeyondTheSplitsWhereTheyAre) {
  const Sample sample(Alltoall{}, {1, 0, 2});
  EXPECT_TRUE(check_request(sample.request, three()).is_ok());
}

TEST(RequestCheck, SharesOutEvenlyWhatHasNoSplits) {
  Sample alltoall(Alltoall{});
  complete_splits(alltoall.request, three());
  EXPECT_THAT(alltoall.request.tensors[0].splits, ElementsAre(2, 2, 2));
  Sample scatter(Scatter{1});
  scatter.request.tensors[0].shape = {5, 2};
  complete_splits(scatter.request, three());
  EXPECT_THAT(scatter.request.tensors[0].splits, ElementsAre(2, 2, 1));
  Sample elsewhere(Scatter{0}, {6, 0, 0});
  complete_splits(elsewhere.request, three());
  EXPECT_THAT(elsewhere.request.tensors[0].splits, ElementsAre(0, 0, 0)) << "not the root";
  Sample given(Alltoall{}, {1, 0, 2});
  complete_splits(given.request, three());
  EXPECT_THAT(given.request.tensors[0].splits, ElementsAre(1, 0, 2));
  Sample other(Allgather{});
  complete_splits(other.request, three());
  EXPECT_TRUE(other.request.tensors[0].splits.empty());
}

}  // namespace
}  // namespace hvd
