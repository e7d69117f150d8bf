// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/result.h"

namespace hvd {

// One reader for each kind of setting. `name` is that of a row of base/settings.h of this kind: any
// other is a broken invariant. A variable that is unset or empty has the row's default. A value
// that does not fit is kInvalidArgument with one sentence: variable, value, what it takes, what to
// do.
//
// Read settings at the edges only (the style check `settings` lists them), and pass their values.

/// A kSwitch.
Result<bool> read_switch(const Environment& environment, std::string_view name);
/// A kInteger; nothing where it is unset and the row has no number for that.
Result<std::optional<std::int64_t>> read_integer(const Environment& environment,
                                                 std::string_view name);
/// A kSeconds.
Result<std::chrono::seconds> read_seconds(const Environment& environment, std::string_view name);
/// A kBytes.
Result<std::size_t> read_bytes(const Environment& environment, std::string_view name);
/// A kChoice; empty where it is unset or empty.
Result<std::string> read_choice(const Environment& environment, std::string_view name);
/// A kText, kPath or kWords, of which any value will do; empty where it is unset.
std::string read_text(const Environment& environment, std::string_view name);

}  // namespace hvd
