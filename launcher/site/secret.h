// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hvd {

/// Whether the value of that variable looks like a password, token or key: it is not shown.
bool is_secret(const std::string& name, const std::string& value);

/// A command line for people: "(redacted)" in the place of what follows --api-key, TOKEN= and their
/// like.
std::vector<std::string> shown_arguments(std::vector<std::string> arguments);

}  // namespace hvd
