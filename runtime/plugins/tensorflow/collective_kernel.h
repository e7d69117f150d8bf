// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "hvd/hvd.h"
#include "plugins/tensorflow/operations.h"
#include "plugins/tensorflow/tensorflow_api.h"

namespace hvd::tensorflow {

/// One node of a graph: what its attributes say. Immutable after construction.
struct CollectiveKernel {
  const Operation& operation;
  std::string name;     ///< Of the tensor; "": the order of calls names it.
  hvd_request request;  ///< Without name, tensors and callback.
};

/// Tells TensorFlow of the kernels of every collective; "" or why it refused one.
std::string register_collective_kernels();

}  // namespace hvd::tensorflow
