// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd::tensorflow {

/// Tells TensorFlow of every op; "" or why it refused one.
std::string define_operations();

}  // namespace hvd::tensorflow
