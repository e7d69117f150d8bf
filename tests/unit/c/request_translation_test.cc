// SPDX-License-Identifier: Apache-2.0
#include "c/request_translation.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "c/guard.h"

namespace hvd {
namespace {

struct Sample {
  float memory[6] = {};
  std::int64_t shape[2] = {2, 3};
  hvd_tensor tensor{memory, memory, HVD_FLOAT32, 2, shape, 0};
  hvd_request request = HVD_REQUEST_INITIALIZER;

  Sample() {
    request.name = "fc.weight";
    request.tensors = &tensor;
    request.tensor_count = 1;
  }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;
};

TEST(RequestTranslation, CarriesEveryField) {
  Sample sample;
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
  Sample sample;
  std::string seen;
  sample.request.context = &seen;
  sample.request.on_complete = [](void* context, hvd_status status, const char* message) {
    *static_cast<std::string*>(context) = std::to_string(status) + message;
  };
  translate(sample.request).value().on_complete(Status(Code::kPeerLost, " gone"));
  EXPECT_EQ(seen, "5 gone");
}

TEST(RequestTranslation, ScalarsAndEmptyTensorsAreFine) {
  Sample sample;
  sample.tensor.dimensions = 0;
  sample.tensor.shape = nullptr;
  EXPECT_TRUE(translate(sample.request).is_ok());
  sample.tensor = hvd_tensor{nullptr, nullptr, HVD_FLOAT32, 2, sample.shape, 0};
  sample.shape[0] = 0;
  EXPECT_TRUE(translate(sample.request).is_ok());
}

TEST(RequestTranslation, RefusesWhatCannotBeMeant) {
  struct Case {
    const char* what;
    std::function<void(Sample&)> spoil;
    const char* words;
  };
  const Case cases[] = {
      {"size", [](Sample& s) { s.request.struct_size = 8; }, "struct_size is 8"},
      {"kind", [](Sample& s) { s.request.kind = 9; }, "kind 9"},
      {"op", [](Sample& s) { s.request.reduce_op = -1; }, "reduce_op -1"},
      {"device", [](Sample& s) { s.request.device_kind = 4; }, "device_kind 4"},
      {"none", [](Sample& s) { s.request.tensor_count = 0; }, "no tensors"},
      {"barrier", [](Sample& s) { s.request.kind = HVD_BARRIER; }, "a barrier has no tensors"},
      {"dtype", [](Sample& s) { s.tensor.dtype = 13; }, "dtype 13"},
      {"dims", [](Sample& s) { s.tensor.dimensions = -1; }, "-1 dimensions"},
      {"shape", [](Sample& s) { s.tensor.shape = nullptr; }, "null shape"},
      {"extent", [](Sample& s) { s.shape[1] = -3; }, "a dimension is -3"},
      {"overflow",
       [](Sample& s) { s.shape[0] = s.shape[1] = std::numeric_limits<std::int64_t>::max() / 2; },
       "2^63"},
      {"input", [](Sample& s) { s.tensor.input = nullptr; }, "input is null"},
      {"output", [](Sample& s) { s.tensor.output = nullptr; }, "output is null"},
  };
  for (const Case& c : cases) {
    Sample sample;
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
