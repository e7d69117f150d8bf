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

/// As record_field(), for a path, the last of that name: up to the next " Name=" with a name as
/// Slurm's are, since paths may hold blanks and "=".
std::string record_path(std::string_view line, std::string_view name);

/// A line about a job without what the user wrote: its name, and all from its command on. Fields
/// are read from this, paths from the whole line.
std::string job_fields(std::string_view line);

/// A whole number that is not negative; absent: anything else, such as "UNLIMITED".
std::optional<long long> record_number(std::string_view text);

/// The same where it is an int.
std::optional<int> record_count(std::string_view text);

}  // namespace hvd
