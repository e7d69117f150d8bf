// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace hvd {

enum class OptionArgument { kNone, kRequired, kOptional };

/// What an option is for, beside the usual request.
enum class SbatchUse {
  kUsual,
  kNewer,    ///< sbatch of Slurm 22.05 does not have it.
  kBatch,    ///< salloc does not have it.
  kProgram,  ///< About sbatch itself or a program on its command line: no line of a header.
};

/// One option of sbatch.
struct SbatchOption {
  std::string_view name;
  char letter;  ///< 0: none.
  OptionArgument argument;
  SbatchUse use = SbatchUse::kUsual;
};

/// All of them, by name: the table of job headers and of lint.
std::span<const SbatchOption> sbatch_options();

/// By its long name, or an unambiguous beginning of one, as getopt takes it; null: not known.
const SbatchOption* find_sbatch_option(std::string_view name);

/// By its letter; null: not known.
const SbatchOption* find_sbatch_letter(char letter);

/// The long name that `typed` is most likely a slip of; empty: none is near.
std::string_view nearest_sbatch_option(std::string_view typed);

}  // namespace hvd
