// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hvd {

/// Options that people know from horovodrun, mpirun, torchrun, srun or sbatch, and what to do here
/// in their place.
struct ForeignOption {
  /// Without dashes, separated by spaces, a '-' for each '_'; a last '*' stands for any rest.
  std::string_view names;
  std::string_view remedy;  ///< For a hint: "write --output-dir DIR".
};

/// Those that someone may type after this command.
std::span<const ForeignOption> foreign_options(std::string_view command);

/// The remedy for a word such as "--timeline-filename=F", "-bind-to" or "-H"; empty: none.
std::string_view foreign_remedy(std::string_view word, std::string_view command);

/// The same for an option of one letter followed by its value, such as "-Hlocalhost:2". Only
/// for a value that cannot be the rest of a name: "-merge-stderr-to-stdout" is no -m.
std::string_view foreign_letter_remedy(std::string_view word, std::string_view command);

}  // namespace hvd
