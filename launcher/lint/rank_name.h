// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvd {

/// The words of a name, in lower case: "isMain_Process" has "is", "main" and "process".
std::vector<std::string> words_of_name(std::string_view name);

/// A name that people give to the rank, or to being the first of them: "local_rank", "is_main".
/// The rank of a matrix ("lora_rank") and of another process ("root_rank") is neither.
bool is_rank_name(std::string_view name);

/// A name for a part of the data among those of all ranks.
bool is_share_name(std::string_view name);

/// The environment variable in which a launcher tells a process its rank.
bool is_rank_variable(std::string_view name);

/// A function or decorator that says it runs on one rank alone: "rank_zero_only".
bool is_name_for_one_rank(std::string_view name);

}  // namespace hvd
