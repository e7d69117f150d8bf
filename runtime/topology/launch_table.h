// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace hvd {

/// Variables that hvdrun writes and libhvd reads (topology/launch_env.h), and what they mean. The
/// second table of docs/reference/environment.md and rows of lint are made from it.
struct LaunchVariables {
  std::array<std::string_view, 5> names;  ///< Those after the last are empty.
  std::string_view meaning;               ///< Markdown.
};

std::span<const LaunchVariables> launch_variables();

/// That table of the page.
std::string launch_table();

}  // namespace hvd
