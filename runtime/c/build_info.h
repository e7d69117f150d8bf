// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// The JSON object of hvd_build_info().
std::string build_info();

}  // namespace hvd
