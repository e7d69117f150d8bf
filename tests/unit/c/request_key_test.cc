// SPDX-License-Identifier: Apache-2.0
#include "c/request_key.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "c/request_translation.h"
#include "sample_request.h"

namespace hvd {
namespace {

std::string key_of(const SampleRequest& sample) {
  return std::string(RequestKey(sample.request).text());
}

/// The key of a request that differs from another one in this only.
std::string key_with(const std::function<void(SampleRequest&)>& change) {
  SampleRequest sample;
  change(sample);
  return key_of(sample);
}

TEST(RequestKey, IsTheSameForTheSameElsewhere) {
  SampleRequest first;
  const SampleRequest second;
  EXPECT_NE(key_of(first), "");
  EXPECT_EQ(key_of(first), key_of(second)) << "shapes and tensors are compared, not where they lie";
  first.tensor.input = nullptr;
  first.tensor.output = &first;
  first.tensor.output_bytes = 8;
  first.request.flags = HVD_SUBMIT_MORE;
  EXPECT_EQ(key_of(first), key_of(second));
}

TEST(RequestKey, TellsApartWhatIsTranslatedInAnotherWay) {
  const std::vector<std::function<void(SampleRequest&)>> changes = {
      [](SampleRequest&) {},
      [](SampleRequest& one) { one.request.name = "fc.bias"; },
      [](SampleRequest& one) { one.request.name = nullptr; },
      [](SampleRequest& one) { one.request.kind = HVD_REDUCESCATTER; },
      [](SampleRequest& one) { one.request.process_set = 1; },
      [](SampleRequest& one) { one.request.reduce_op = HVD_MAX; },
      [](SampleRequest& one) { one.request.root = 1; },
      [](SampleRequest& one) { one.request.prescale = 0.5; },
      [](SampleRequest& one) { one.request.postscale = 0.5; },
      [](SampleRequest& one) { one.request.wire = HVD_WIRE_FLOAT16; },
      [](SampleRequest& one) { one.request.priority = 1; },
      [](SampleRequest& one) { one.request.device_index = 1; },
      [](SampleRequest& one) { one.request.tensor_count = 0; },
      [](SampleRequest& one) { one.tensor.dtype = HVD_INT32; },
      [](SampleRequest& one) { one.tensor.dimensions = 1; },
      [](SampleRequest& one) { one.tensor.layout = 1; },
      [](SampleRequest& one) { one.shape[1] = 4; },
      [](SampleRequest& one) {
        one.tensor.splits = one.splits;
        one.tensor.split_count = 2;
      },
      [](SampleRequest& one) {
        one.splits[1] = 0;
        one.tensor.splits = one.splits;
        one.tensor.split_count = 2;
      },
  };
  std::vector<std::string> keys;
  for (const auto& change : changes) {
    const std::string key = key_with(change);
    EXPECT_NE(key, "");
    for (std::size_t other = 0; other < keys.size(); ++other) {
      EXPECT_NE(key, keys[other]) << "changes " << keys.size() << " and " << other;
    }
    keys.push_back(key);
  }
}

TEST(RequestKey, IsEmptyForWhatIsNotKept) {
  const std::string long_name(600, 'n');
  const std::vector<std::function<void(SampleRequest&)>> changes = {
      [](SampleRequest& one) { one.request.struct_size = offsetof(hvd_request, stream); },
      [](SampleRequest& one) { one.request.device_kind = HVD_CUDA; },
      [](SampleRequest& one) { one.request.on_complete = [](void*, hvd_status, const char*) {}; },
      [&](SampleRequest& one) { one.request.name = long_name.c_str(); },
      [](SampleRequest& one) { one.tensor.dimensions = -1; },
      [](SampleRequest& one) { one.tensor.dimensions = 1'000'000; },
      [](SampleRequest& one) { one.tensor.shape = nullptr; },
      [](SampleRequest& one) { one.tensor.splits = one.splits; },
      [](SampleRequest& one) { one.tensor.split_count = 2; },
      [](SampleRequest& one) {
        one.tensor.splits = one.splits;
        one.tensor.split_count = ~std::size_t{0} / 8 + 2;
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(key_with(changes[i]), "") << "change " << i;
  }
}

TEST(TranslateMemory, TellsWhereTheTensorsAreThisTime) {
  SampleRequest before;
  before.request.kind = HVD_BROADCAST;
  before.request.root = 3;
  Request request = translate(before.request).value();
  set_root(request.operation, 1);  // its number in a process set
  SampleRequest now;
  now.request.kind = HVD_BROADCAST;
  now.request.root = 3;
  now.tensor.output_bytes = 24;
  translate_memory(now.request, request);
  EXPECT_EQ(request.tensors[0].input, now.memory);
  EXPECT_EQ(request.tensors[0].output, now.memory);
  EXPECT_EQ(request.tensors[0].output_bytes, 24U);
  EXPECT_EQ(root_of(request.operation), 3);
}

}  // namespace
}  // namespace hvd
