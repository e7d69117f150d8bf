// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "launcher/lint/python_bindings.h"
#include "launcher/lint/python_blocks.h"
#include "launcher/lint/python_script.h"

namespace hvd {

/// Which conditions of a program, and which of its values, depend on the rank; borrows the program.
/// Immutable after construction.
class PythonGuards {
 public:
  PythonGuards(const PythonScript& script, const std::vector<BlockPlace>& places,
               const std::vector<PythonBinding>& bindings);

  /// Whether a condition asks for the rank, or for a value that was made by comparing it.
  bool asks_for_rank(std::size_t line_index, TokenRange condition) const;

  /// Whether a value of a line is made, in whatever way, from the rank or the number of ranks.
  bool is_made_from_rank(std::size_t line_index, TokenRange range) const;

  /// Whether a token is reached by some ranks alone by what its own line says before or around it:
  /// "hvd.rank() == 0 and save()".
  bool is_guarded_in_line(std::size_t line_index, std::size_t token) const;

  /// Whether a decorator of a definition, or its name, says that one rank alone runs it.
  bool is_for_one_rank(std::size_t definition) const;

 private:
  using Names = std::unordered_set<std::string>;

  struct Learned {
    Names names;
    std::map<std::size_t, Names> parameters;  ///< By their function.
  };

  enum class Where { kAnywhere, kOutsideOfCalls };

  void learn_names(const std::vector<PythonBinding>& bindings);
  void seed_name(const std::string& name);
  static bool add(Learned& learned, const PythonBinding& binding);
  bool knows(const Learned& learned, std::size_t line_index, const std::string& name) const;
  bool holds_token(std::size_t line_index, TokenRange range, std::size_t at,
                   const Learned& learned) const;
  bool holds(std::size_t line_index, TokenRange range, const Learned& learned,
             Where where = Where::kAnywhere) const;
  bool tells_rank(std::size_t line_index, TokenRange value) const;
  bool is_env_rank(const PythonLine& line, std::size_t at) const;
  bool is_rank_of_tensor(const PythonLine& line, std::size_t at) const;
  bool is_guarded_in_part(std::size_t line_index, TokenRange part, TokenRange inner) const;

  const PythonScript& script_;
  const std::vector<BlockPlace>& places_;
  Learned guards_;           ///< Names whose value says which rank this is.
  Learned shares_;           ///< Names whose value depends on the rank at all.
  std::vector<bool> holds_;  ///< Lines that hold a guard at all.
};

}  // namespace hvd
