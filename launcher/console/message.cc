// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/message.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "launcher/console/exit_code.h"

namespace hvd {
namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kRed = "\x1b[1;31m";
constexpr std::string_view kCyan = "\x1b[36m";
constexpr std::string_view kPlain = "\x1b[0m";
constexpr std::string_view kHint = "hint:";

std::string in_color(std::string_view color, std::string_view text) {
  return std::string(color).append(text).append(kPlain);
}

}  // namespace

bool wants_color(int fd, const Environment& environment) {
  if (!environment.get("NO_COLOR").value_or("").empty()) return false;
  return environment.get("TERM").value_or("dumb") != "dumb" && ::isatty(fd) == 1;
}

std::string message_text(std::string_view message, bool colored) {
  std::string text = colored ? in_color(kRed, "hvdrun:") : "hvdrun:";
  text.append(" ");
  for (std::size_t begin = 0; begin < message.size();) {
    const std::size_t end = std::min(message.find('\n', begin), message.size());
    std::string_view line = message.substr(begin, end - begin);
    if (colored && line.starts_with(kHint)) {
      text += in_color(kCyan, kHint);
      line.remove_prefix(kHint.size());
    }
    text.append(line).append("\n");
    begin = end + 1;
  }
  return text;
}

std::string help_with_headings(std::string_view help) {
  std::string text;
  for (std::size_t begin = 0; begin < help.size();) {
    const std::size_t end = std::min(help.find('\n', begin), help.size());
    const std::string_view line = help.substr(begin, end - begin);
    const bool is_heading = line.ends_with(":") && !line.starts_with(" ");
    text.append(is_heading ? in_color(kBold, line) : line).append("\n");
    begin = end + 1;
  }
  return text;
}

void print_message(std::string_view message) {
  const bool colored = wants_color(STDERR_FILENO, Environment::of_process());
  std::fputs(message_text(message, colored).c_str(), stderr);
}

void print_messages(const std::vector<std::string>& messages) {
  for (const std::string& message : messages) print_message(message);
}

int print_answer(std::string_view text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  return std::fflush(stdout) == 0 && is_written ? 0 : kExitFailure;
}

int print_help(std::string_view help) {
  const bool colored = wants_color(STDOUT_FILENO, Environment::of_process());
  return print_answer(colored ? help_with_headings(help) : std::string(help));
}

}  // namespace hvd
