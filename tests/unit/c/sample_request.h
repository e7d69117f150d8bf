// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hvd/hvd.h"

namespace hvd {

/// An allreduce of one tensor, as a program fills it in.
struct SampleRequest {
  float memory[6] = {};
  std::int64_t shape[2] = {2, 3};
  std::int64_t splits[2] = {1, 1};  ///< Not in the tensor.
  hvd_tensor tensor{memory, memory, HVD_FLOAT32, 2, shape, 0, nullptr, 0, 0};
  hvd_request request = HVD_REQUEST_INITIALIZER;

  SampleRequest() {
    request.name = "fc.weight";
    request.tensors = &tensor;
    request.tensor_count = 1;
  }
  SampleRequest(const SampleRequest&) = delete;
  SampleRequest& operator=(const SampleRequest&) = delete;
};

}  // namespace hvd
