// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace hvd {

enum class OptionArgument { kNone, kRequired, kOptional };

/// One option of sbatch.
struct SbatchOption {
  std::string_view name;
  char letter;  ///< 0: none.
  OptionArgument argument;
};

/// By its long name, or an unambiguous beginning of one, as getopt takes it; null: not known.
const SbatchOption* find_sbatch_option(std::string_view name);

/// By its letter; null: not known.
const SbatchOption* find_sbatch_letter(char letter);

/// The long name that `typed` is most likely a slip of; empty: none is near.
std::string_view nearest_sbatch_option(std::string_view typed);

}  // namespace hvd
