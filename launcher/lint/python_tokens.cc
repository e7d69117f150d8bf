// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_tokens.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hvd {
namespace {

bool starts_name(char letter) {
  return letter == '_' || (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         static_cast<unsigned char>(letter) >= 0x80;
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// Whether a name such as "rb" may stand before the quote of a string.
bool is_string_prefix(std::string_view name) {
  return name.size() <= 2 && name.find_first_not_of("rRbBuUfF") == std::string_view::npos;
}

constexpr std::array<std::string_view, 24> kLongOperators{
    "**=", "//=", ">>=", "<<=", "...", "==", "!=", "<=", ">=", "->", ":=", "+=",
    "-=",  "*=",  "/=",  "%=",  "&=",  "|=", "^=", "@=", "**", "//", "<<", ">>"};

/// Reads a program from one byte to the next; every step moves on.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  std::vector<PythonLine> read() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
    read_indent();
    while (at_ < text_.size()) step();
    finish_line();
    return std::move(lines_);
  }

 private:
  char here() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void step() {
    const char letter = here();
    if (letter == '\n') {
      ++at_;
      ++number_;
      if (depth_ > 0) return;
      finish_line();
      read_indent();
    } else if (letter == '\\' && end_of_escaped_line() > 0) {
      at_ += end_of_escaped_line();
      ++number_;
    } else if (letter == ' ' || letter == '\t' || letter == '\r' || letter == '\f') {
      ++at_;
    } else if (letter == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (letter == '\'' || letter == '"') {
      read_string("");
    } else if (starts_name(letter)) {
      read_name();
    } else if (is_digit(letter)) {
      read_number();
    } else {
      read_operator();
    }
  }

  /// The length of a backslash here and the end of its line; 0: the line goes on.
  std::size_t end_of_escaped_line() const {
    const std::string_view rest = text_.substr(at_ + 1);
    if (rest.starts_with('\n')) return 2;
    return rest.starts_with("\r\n") ? 3 : 0;
  }

  void read_indent() {
    indent_ = 0;
    for (; here() == ' ' || here() == '\t'; ++at_) {
      indent_ = here() == '\t' ? (indent_ / 8 + 1) * 8 : indent_ + 1;
    }
  }

  void add(PythonTokenKind kind, std::string_view text, bool is_formatted = false) {
    if (line_.tokens.empty()) {
      line_.line = number_;
      line_.indent = indent_;
    }
    line_.tokens.push_back({kind, std::string(text), number_, is_formatted});
  }

  void finish_line() {
    if (!line_.tokens.empty()) lines_.push_back(std::exchange(line_, {}));
  }

  void read_name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (starts_name(here()) || is_digit(here()))) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if ((here() == '\'' || here() == '"') && is_string_prefix(name)) {
      read_string(name);
    } else {
      add(PythonTokenKind::kName, name);
    }
  }

  void read_number() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (starts_name(here()) || is_digit(here()) || here() == '.')) ++at_;
    add(PythonTokenKind::kNumber, text_.substr(begin, at_ - begin));
  }

  void read_string(std::string_view prefix) {
    const std::string_view rest = text_.substr(at_);
    const std::string quote(rest.starts_with("\"\"\"") || rest.starts_with("'''") ? 3 : 1, here());
    at_ += quote.size();
    const std::size_t begin = at_;
    while (at_ < text_.size() && !text_.substr(at_).starts_with(quote)) {
      if (here() == '\n' && quote.size() == 1) break;  // its end is missing
      const bool is_escape = here() == '\\';           // it takes the next letter with it
      at_ += !is_escape ? 1 : std::max<std::size_t>(end_of_escaped_line(), 2);
    }
    const std::size_t end = std::min(at_, text_.size());
    const std::string_view content = text_.substr(begin, end - begin);
    add(PythonTokenKind::kString, content, prefix.find_first_of("fF") != std::string_view::npos);
    number_ += static_cast<int>(std::count(content.begin(), content.end(), '\n'));
    at_ = end;
    if (text_.substr(at_).starts_with(quote)) at_ += quote.size();
  }

  void read_operator() {
    std::string_view word = text_.substr(at_, 1);
    for (const std::string_view one : kLongOperators) {
      if (text_.substr(at_).starts_with(one)) {
        word = one;
        break;
      }
    }
    if (word == "(" || word == "[" || word == "{") ++depth_;
    if (word == ")" || word == "]" || word == "}") depth_ = std::max(0, depth_ - 1);
    add(PythonTokenKind::kOperator, word);
    at_ += word.size();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int number_ = 1;
  int depth_ = 0;
  int indent_ = 0;
  PythonLine line_;
  std::vector<PythonLine> lines_;
};

}  // namespace

std::vector<PythonLine> read_python(std::string_view text) { return PythonReader(text).read(); }

std::size_t end_of_brackets(const PythonLine& line, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < line.tokens.size(); ++at) {
    depth += step_of_depth(line.tokens[at]);
    if (depth == 0) return at + 1;
  }
  return line.tokens.size();
}

std::size_t colon_of(const PythonLine& line) {
  int depth = 0;
  for (std::size_t at = 0; at < line.tokens.size(); ++at) {
    depth += step_of_depth(line.tokens[at]);
    if (depth == 0 && is_operator(line.tokens[at], ":")) return at;
  }
  return line.tokens.size();
}

std::vector<std::string> names_in_braces(std::string_view text) {
  std::vector<std::string> names;
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '{' && depth == 0 && text.substr(at + 1).starts_with('{')) {
      ++at;  // a brace of the text
    } else if (letter == '{') {
      ++depth;
    } else if (letter == '}') {
      depth = std::max(0, depth - 1);
    } else if (depth > 0 && starts_name(letter)) {
      const std::size_t begin = at;
      while (at + 1 < text.size() && (starts_name(text[at + 1]) || is_digit(text[at + 1]))) ++at;
      names.emplace_back(text.substr(begin, at + 1 - begin));
    }
  }
  return names;
}

}  // namespace hvd
