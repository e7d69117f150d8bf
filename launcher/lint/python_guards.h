// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "launcher/lint/python_script.h"

namespace hvd {

/// Which ranks reach a line.
enum class Reach {
  kSome,     ///< Something above it asks for the rank.
  kUnknown,  ///< Nothing in this file says who calls it.
  kAll,
};

/// Which lines of a program, and which of its values, depend on the rank; borrows the program.
/// Immutable after construction.
class PythonGuards {
 public:
  explicit PythonGuards(const PythonScript& script);

  /// Whether tokens of a line ask for the rank, or for a value that was made by comparing it.
  bool asks_for_rank(std::size_t line_index, TokenRange range) const;

  /// Whether a value of a line is made, in whatever way, from the rank or the number of ranks.
  bool is_made_from_rank(std::size_t line_index, TokenRange range) const;

  Reach reach(std::size_t line_index) const;

 private:
  using Names = std::set<std::string, std::less<>>;

  void learn_names();
  void learn_function(std::size_t definition);
  bool tells_rank(const PythonLine& line, TokenRange value) const;
  bool holds(const PythonLine& line, TokenRange range, const Names& names) const;
  bool line_asks(std::size_t line_index) const;
  bool leaves_early(std::size_t line_index) const;
  Reach reach_within(std::size_t line_index, std::set<std::size_t>& visited) const;
  Reach reach_of_function(std::size_t definition, std::set<std::size_t>& visited) const;
  Reach reach_of_uses(std::size_t definition, std::string_view name, bool is_method,
                      std::set<std::size_t>& visited) const;
  std::size_t end_of_block(std::size_t header) const;
  bool is_decorated_for_rank(std::size_t definition) const;

  const PythonScript& script_;
  Names guards_;  ///< Names whose value says which rank this is.
  Names shares_;  ///< Names whose value depends on the rank at all.
};

}  // namespace hvd
