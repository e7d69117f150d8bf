// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// Whether the value of that variable looks like a password, token or key: it is not shown.
bool is_secret(const std::string& name, const std::string& value);

}  // namespace hvd
