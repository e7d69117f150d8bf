// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "plugins/tensorflow/collective_kernel.h"
#include "plugins/tensorflow/op_definitions.h"
#include "plugins/tensorflow/query_kernel.h"
#include "plugins/tensorflow/tensorflow_api.h"

namespace hvd::tensorflow {

namespace {

std::string& problem() {
  static auto* const text = new std::string;
  return *text;
}

/// tf.load_op_library() writes Python functions for the ops that are registered while it loads the
/// plugin: by this constructor, that is.
__attribute__((constructor)) void register_all() {
  problem() = load_tensorflow_api();
  if (problem().empty()) problem() = define_operations();
  if (problem().empty()) problem() = register_collective_kernels();
  if (problem().empty()) problem() = register_query_kernel();
}

}  // namespace

}  // namespace hvd::tensorflow

/// Why nothing was registered, "" when all is well. Valid while the process lives.
extern "C" __attribute__((visibility("default"))) const char* hvd_tf_problem() {
  return hvd::tensorflow::problem().c_str();
}
