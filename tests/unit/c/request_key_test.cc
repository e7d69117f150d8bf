// SPDX-License-Identifier: Apache-2.0
#include "c/request_key.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "c/request_translation.h"

namespace hvd {
namespace {

struct KeyedRequest {
  float memory[6] = {};
  std::int64_t shape[2] = {2, 3};
  std::int64_t splits[2] = {1, 1};
  hvd_tensor tensor{memory, memory, HVD_FLOAT32, 2, shape, 0, nullptr, 0, 0};
  hvd_request request = HVD_REQUEST_INITIALIZER;

  KeyedRequest() {
    request.name = "fc.weight";
    request.tensors = &tensor;
    request.tensor_count = 1;
  }
  KeyedRequest(const KeyedRequest&) = delete;
  KeyedRequest& operator=(const KeyedRequest&) = delete;
  std::string key() const { return std::string(RequestKey(request).text()); }
};

/// The key of a request that differs from another one in this only.
std::string key_with(const std::function<void(KeyedRequest&)>& change) {
  KeyedRequest sample;
  change(sample);
  return sample.key();
}

TEST(RequestKey, IsTheSameForTheSameElsewhere) {
  KeyedRequest first;
  const KeyedRequest second;
  EXPECT_NE(first.key(), "");
  EXPECT_EQ(first.key(), second.key()) << "shapes and tensors are compared, not where they lie";
  first.tensor.input = nullptr;
  first.tensor.output = &first;
  first.tensor.output_bytes = 8;
  first.request.flags = HVD_SUBMIT_MORE;
  EXPECT_EQ(first.key(), second.key());
}

TEST(RequestKey, TellsApartWhatIsTranslatedInAnotherWay) {
  const std::vector<std::function<void(KeyedRequest&)>> changes = {
      [](KeyedRequest&) {},
      [](KeyedRequest& one) { one.request.name = "fc.bias"; },
      [](KeyedRequest& one) { one.request.name = nullptr; },
      [](KeyedRequest& one) { one.request.kind = HVD_REDUCESCATTER; },
      [](KeyedRequest& one) { one.request.process_set = 1; },
      [](KeyedRequest& one) { one.request.reduce_op = HVD_MAX; },
      [](KeyedRequest& one) { one.request.root = 1; },
      [](KeyedRequest& one) { one.request.prescale = 0.5; },
      [](KeyedRequest& one) { one.request.postscale = 0.5; },
      [](KeyedRequest& one) { one.request.wire = HVD_WIRE_FLOAT16; },
      [](KeyedRequest& one) { one.request.priority = 1; },
      [](KeyedRequest& one) { one.request.device_index = 1; },
      [](KeyedRequest& one) { one.request.tensor_count = 0; },
      [](KeyedRequest& one) { one.tensor.dtype = HVD_INT32; },
      [](KeyedRequest& one) { one.tensor.dimensions = 1; },
      [](KeyedRequest& one) { one.tensor.layout = 1; },
      [](KeyedRequest& one) { one.shape[1] = 4; },
      [](KeyedRequest& one) {
        one.tensor.splits = one.splits;
        one.tensor.split_count = 2;
      },
      [](KeyedRequest& one) {
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
  const std::vector<std::function<void(KeyedRequest&)>> changes = {
      [](KeyedRequest& one) { one.request.struct_size = offsetof(hvd_request, stream); },
      [](KeyedRequest& one) { one.request.device_kind = HVD_CUDA; },
      [](KeyedRequest& one) { one.request.on_complete = [](void*, hvd_status, const char*) {}; },
      [&](KeyedRequest& one) { one.request.name = long_name.c_str(); },
      [](KeyedRequest& one) { one.tensor.dimensions = -1; },
      [](KeyedRequest& one) { one.tensor.dimensions = 1'000'000; },
      [](KeyedRequest& one) { one.tensor.shape = nullptr; },
      [](KeyedRequest& one) { one.tensor.splits = one.splits; },
      [](KeyedRequest& one) { one.tensor.split_count = 2; },
      [](KeyedRequest& one) {
        one.tensor.splits = one.splits;
        one.tensor.split_count = ~std::size_t{0} / 8 + 2;
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(key_with(changes[i]), "") << "change " << i;
  }
}

TEST(TranslateMemory, TellsWhereTheTensorsAreThisTime) {
  KeyedRequest before;
  before.request.kind = HVD_BROADCAST;
  before.request.root = 3;
  Request request = translate(before.request).value();
  set_root(request.operation, 1);  // its number in a process set
  KeyedRequest now;
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
