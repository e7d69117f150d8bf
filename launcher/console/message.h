// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"

namespace hvd {

/// Whether text for the file `fd` may be coloured: it is a terminal, and neither NO_COLOR
/// (https://no-color.org) nor TERM=dumb says otherwise.
bool wants_color(int fd, const Environment& environment);

/// "hvdrun: <sentence>", and each further line ("hint: ...") below it.
std::string message_text(std::string_view message, bool colored);

/// `help` with its headings in bold.
std::string help_with_headings(std::string_view help);

/// Prints message_text() on standard error.
void print_message(std::string_view message);

/// Prints each of them as print_message does.
void print_messages(const std::vector<std::string>& messages);

/// Prints what a command was asked for on standard output; hvdrun's exit code: 1 where it cannot be
/// written.
int print_answer(std::string_view text);

/// Prints a help text, with headings on a terminal, as print_answer does.
int print_help(std::string_view help);

}  // namespace hvd
