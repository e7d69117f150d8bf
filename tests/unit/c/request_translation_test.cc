// SPDX-License-Identifier: Apache-2.0
#include "c/request_translation.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "c/guard.h"
#include "sample_request.h"

namespace hvd {
namespace {

TEST(RequestTranslation, CarriesEveryField) {
  SampleRequest sample;
  sample.tensor.layout = 77;
  sample.request.reduce_op = HVD_MAX;
  sample.request.prescale = 0.5;
  sample.request.postscale = 4;
  sample.request.flags = HVD_SUBMIT_MORE;
  const Request request = translate(sample.request).value();
  EXPECT_EQ(request.name, "fc.weight");
  EXPECT_EQ(std::get<Allreduce>(request.operation), (Allreduce{ReduceOp::kMax, 0.5, 4.0}));
  ASSERT_EQ(request.tensors.size(), 1u);
  EXPECT_EQ(request.tensors[0].input, sample.memory);
  EXPECT_EQ(request.tensors[0].output, sample.memory);
  EXPECT_EQ(request.tensors[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(request.tensors[0].layout, 77u);
  EXPECT_TRUE(request.more);
}

TEST(RequestTranslation, GivesTheCallbackItsContextAndStatus) {
  SampleRequest sample;
  std::string seen;
  sample.request.context = &seen;
  sample.request.on_complete = [](void* context, hvd_status status, const char* message) {
    *static_cast<std::string*>(context) = std::to_string(status) + message;
  };
  translate(sample.request).value().on_complete(Status(Code::kPeerLost, " gone"));
  EXPECT_EQ(seen, "5 gone");
}

TEST(RequestTranslation, ScalarsAndEmptyTensorsAreFine) {
  SampleRequest sample;
  sample.tensor.dimensions = 0;
  sample.tensor.shape = nullptr;
  EXPECT_TRUE(translate(sample.request).is_ok());
  sample.tensor = hvd_tensor{nullptr, nullptr, HVD_FLOAT32, 2, sample.shape, 0, nullptr, 0, 0};
  sample.shape[0] = 0;
  EXPECT_TRUE(translate(sample.request).is_ok());
}

TEST(RequestTranslation, KnowsEveryKindAndItsParameters) {
  const std::pair<hvd_kind, Operation> kinds[] = {
      {HVD_ALLREDUCE, Allreduce{ReduceOp::kMin, 0.5, 2, Wire::kFloat16}},
      {HVD_ALLGATHER, Allgather{}},
      {HVD_BROADCAST, Broadcast{1}},
      {HVD_BARRIER, Barrier{}},
      {HVD_REDUCESCATTER, Reducescatter{ReduceOp::kMin, 0.5, 2}},
      {HVD_ALLTOALL, Alltoall{}},
      {HVD_REDUCE, Reduce{1, ReduceOp::kMin, 0.5, 2}},
      {HVD_GATHER, Gather{1}},
      {HVD_SCATTER, Scatter{1}},
      {HVD_JOIN, Join{}},
  };
  EXPECT_EQ(std::size(kinds), kKindCount);
  for (const auto& [kind, operation] : kinds) {
    SampleRequest sample;
    sample.request.kind = kind;
    sample.request.reduce_op = HVD_MIN;
    sample.request.wire = HVD_WIRE_FLOAT16;
    sample.request.root = 1;
    sample.request.prescale = 0.5;
    sample.request.postscale = 2;
    sample.request.priority = 7;
    const auto request = translate(sample.request);
    ASSERT_TRUE(request.is_ok()) << request.status().message();
    EXPECT_EQ(request.value().operation, operation) << describe(operation);
    EXPECT_EQ(request.value().priority, 7);
  }
}

TEST(RequestTranslation, CopiesSplits) {
  SampleRequest sample;
  std::int64_t splits[] = {2, 0};
  sample.request.kind = HVD_ALLTOALL;
  sample.tensor.splits = splits;
  sample.tensor.split_count = 2;
  const Request request = translate(sample.request).value();
  splits[0] = 9;
  EXPECT_EQ(request.tensors[0].splits, (std::vector<std::int64_t>{2, 0}));
}

/// hvd_tensor as the first hvd.h had it.
struct FirstTensor {
  const void* input;
  void* output;
  std::int32_t dtype;
  std::int32_t dimensions;
  const std::int64_t* shape;
  std::uint64_t layout;
};

TEST(RequestTranslation, TakesRequestsOfTheFirstVersion) {
  SampleRequest sample;
  float other[6] = {};
  const FirstTensor tensors[] = {{sample.memory, sample.memory, HVD_FLOAT32, 2, sample.shape, 0},
                                 {other, other, HVD_FLOAT32, 2, sample.shape, 5}};
  sample.request.struct_size = offsetof(hvd_request, wire);
  sample.request.wire = 99;  // memory behind the caller's struct
  sample.request.priority = 99;
  sample.request.tensors = reinterpret_cast<const hvd_tensor*>(tensors);
  sample.request.tensor_count = 2;
  const Request request = translate(sample.request).value();
  ASSERT_EQ(request.tensors.size(), 2u);
  EXPECT_EQ(request.tensors[1].input, other);
  EXPECT_EQ(request.tensors[1].layout, 5u);
  EXPECT_EQ(request.priority, 0);
  EXPECT_EQ(std::get<Allreduce>(request.operation).wire, Wire::kSame);
}

TEST(RequestTranslation, TakesRequestsFromBeforeStreams) {
  SampleRequest sample;
  int stream = 0;
  sample.request.struct_size = offsetof(hvd_request, stream);
  sample.request.priority = 3;
  sample.request.stream = &stream;  // memory behind the caller's struct
  const Request request = translate(sample.request).value();
  EXPECT_EQ(request.priority, 3);
  EXPECT_EQ(request.stream, nullptr);
}

TEST(RequestTranslation, CarriesDeviceAndStreamOfGpuMemory) {
  SampleRequest sample;
  int stream = 0;
  sample.request.device_kind = HVD_CUDA;
  sample.request.device_index = 5;
  sample.request.stream = &stream;
  const Request request = translate(sample.request).value();
  EXPECT_EQ(request.device, (Device{DeviceKind::kCuda, 5}));
  EXPECT_EQ(request.stream, &stream);
}

TEST(RequestTranslation, KnowsTheLastNumberOfEachEnumeration) {
  SampleRequest sample;
  sample.request.reduce_op = HVD_BIT_XOR;
  sample.request.wire = HVD_WIRE_BFLOAT16;
  sample.request.device_kind = HVD_ROCM;
  sample.tensor.dtype = HVD_FLOAT8_E5M2;
  const auto request = translate(sample.request);
  ASSERT_TRUE(request.is_ok()) << request.status().message();
  EXPECT_EQ(request.value().operation,
            Operation(Allreduce{ReduceOp::kBitXor, 1, 1, Wire::kBfloat16}));
  EXPECT_EQ(request.value().device.kind, DeviceKind::kRocm);
  EXPECT_EQ(request.value().tensors[0].dtype, DataType::kFloat8E5m2);
}

TEST(RequestTranslation, RefusesWhatCannotBeMeant) {
  struct Case {
    const char* what;
    std::function<void(SampleRequest&)> spoil;
    const char* words;
  };
  const Case cases[] = {
      {"size", [](SampleRequest& s) { s.request.struct_size = 8; }, "struct_size is 8"},
      {"kind", [](SampleRequest& s) { s.request.kind = 10; }, "kind 10"},
      {"op", [](SampleRequest& s) { s.request.reduce_op = -1; }, "reduce_op -1"},
      {"device", [](SampleRequest& s) { s.request.device_kind = 4; }, "device_kind 4"},
      {"op of reduce",
       [](SampleRequest& s) {
         s.request.kind = HVD_REDUCE;
         s.request.reduce_op = 9;
       },
       "reduce_op 9"},
      {"wire", [](SampleRequest& s) { s.request.wire = 3; }, "wire 3"},
      {"newer", [](SampleRequest& s) { s.request.struct_size = sizeof(hvd_request) + 8; },
       "load a library as new"},
      {"splits", [](SampleRequest& s) { s.tensor.split_count = 2; }, "split_count is 2"},
      {"dtype", [](SampleRequest& s) { s.tensor.dtype = 17; }, "dtype 17"},
      {"dims", [](SampleRequest& s) { s.tensor.dimensions = -1; }, "-1 dimensions"},
      {"shape", [](SampleRequest& s) { s.tensor.shape = nullptr; }, "null shape"},
  };
  for (const Case& c : cases) {
    SampleRequest sample;
    c.spoil(sample);
    const auto result = translate(sample.request);
    ASSERT_FALSE(result.is_ok()) << c.what;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument) << c.what;
    EXPECT_NE(result.status().message().find(c.words), std::string::npos)
        << c.what << ": " << result.status().message();
  }
}

TEST(Guard, TurnsFailuresAndExceptionsIntoCodeAndText) {
  EXPECT_EQ(guarded([] { return Status::ok(); }), HVD_OK);
  EXPECT_EQ(guarded([] { return Status(Code::kTimeout, "late"); }), HVD_TIMEOUT);
  EXPECT_EQ(last_error(), "late");
  EXPECT_EQ(guarded([]() -> Status { throw std::bad_alloc(); }), HVD_SYSTEM);
  EXPECT_EQ(last_error(), "out of memory");
  EXPECT_EQ(guarded([]() -> Status { throw 3; }), HVD_INTERNAL);
}

}  // namespace
}  // namespace hvd
