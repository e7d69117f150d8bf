// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd::tensorflow {

/// Tells TensorFlow of the kernel that answers questions about the job; "" or why it refused.
std::string register_query_kernel();

}  // namespace hvd::tensorflow
