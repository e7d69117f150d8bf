// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace hvd {

/// Negative, zero or positive as dotted version `a` is before, at or after `b`; what one of them
/// lacks is 0. Absent: one of them is not a version.
std::optional<int> compare_versions(std::string_view a, std::string_view b);

}  // namespace hvd
