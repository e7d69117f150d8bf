// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

/// The lines of a text, without those that are empty.
std::vector<std::string_view> lines_of(std::string_view text);

/// The words between the commas of a list; empty ones are left out.
std::vector<std::string> comma_words(std::string_view list);

/// Of a line "Key=value Key=value ..." of `scontrol --oneliner`: the value of `name` up to the next
/// blank; empty: none, or one that says nothing ("(null)", "None", "N/A", "Unknown").
std::string record_field(std::string_view line, std::string_view name);

/// As record_field(), for a path: up to the next " Name=", since paths may hold blanks.
std::string record_path(std::string_view line, std::string_view name);

/// A whole number that is not negative; absent: anything else, such as "UNLIMITED".
std::optional<long long> record_number(std::string_view text);

}  // namespace hvd
