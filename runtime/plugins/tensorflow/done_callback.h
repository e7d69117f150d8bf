// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "plugins/tensorflow/tensorflow_api.h"

namespace hvd::tensorflow {

/// TensorFlow's callback that ends an asynchronous kernel.
///
/// TensorFlow gives the address of a std::function that lives on its own stack and is gone when the
/// kernel returns (2.13 to 2.21), so that it is copied. A later TensorFlow that gives an object of
/// the heap is served as well: the address tells.
class DoneCallback {
 public:
  explicit DoneCallback(TF_AsyncOpKernelDoneCallback* done);
  /// Call once; neither the context nor the kernel may be touched afterwards.
  void run();

 private:
  std::unique_ptr<std::function<void()>> copy_;
  TF_AsyncOpKernelDoneCallback* done_;
};

}  // namespace hvd::tensorflow
