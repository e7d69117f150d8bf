// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

/// A word that looks like an option and is none.
struct UnknownWord {
  std::string word;
  std::string next;  ///< What follows it; empty: nothing.
};

/// The first such word before the program and before a `--help`.
///
/// CLI11 reads "-hosts" as -h and more, and "-np=2" as -n with the value "p=2". Here `-h` is a
/// word of its own, a number that is written after a letter begins with a digit, and a name of
/// several letters that is known elsewhere (foreign_option.h) is not a letter with its value.
std::optional<UnknownWord> unknown_word(const CLI::App& app,
                                        const std::vector<std::string>& arguments,
                                        std::string_view command);

/// "write --nodes 2" for "-nodes 2" and "-nodes=2", "write -n 2" for "-n=2"; empty: it is no
/// misspelling of that kind.
std::string right_spelling(const CLI::App& app, const UnknownWord& unknown);

}  // namespace hvd
