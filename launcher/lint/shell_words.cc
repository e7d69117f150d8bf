// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/shell_words.h"

#include <algorithm>
#include <array>

namespace hvd {
namespace {

constexpr std::array<std::string_view, 6> kOpening{"if", "while", "until", "for", "case", "{"};
constexpr std::array<std::string_view, 4> kClosing{"fi", "done", "esac", "}"};
constexpr std::array<std::string_view, 6> kSkipped{"then", "do", "else", "elif", "!", "time"};

template <std::size_t kSize>
bool is_one_of(std::string_view word, const std::array<std::string_view, kSize>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_blank(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }

bool is_operator(char letter) {
  return letter == ';' || letter == '&' || letter == '|' || letter == '(' || letter == ')' ||
         letter == '<' || letter == '>';
}

/// Reads a script from one byte to the next; every step moves on.
class CommandReader {
 public:
  CommandReader(std::string_view text, std::size_t begin) : text_(text), at_(begin) {}

  std::vector<ShellCommand> read() {
    while (at_ < text_.size()) step();
    finish_command();
    return std::move(commands_);
  }

 private:
  char here() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\0'; }

  void step() {
    if (is_blank(here())) {
      ++at_;
    } else if (here() == '\\' && next() == '\n') {
      at_ += 2;
    } else if (here() == '\n') {
      finish_command();
      ++at_;
      skip_here_documents();
    } else if (here() == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (is_operator(here())) {
      read_operator();
    } else {
      read_word();
    }
  }

  void read_operator() {
    const char letter = here();
    if (letter == '<' && next() == '<') {
      at_ += 2;
      if (here() == '<') {  // <<< takes a word
        ++at_;
        return;
      }
      read_here_delimiter();
      return;
    }
    if (letter == '<' || letter == '>') {
      ++at_;
      if (here() == '&' || here() == '|' || here() == '>') ++at_;
      is_redirected_ = true;
      return;
    }
    if (letter == '&' && next() == '>') {  // &> takes a word
      at_ += 2;
      is_redirected_ = true;
      return;
    }
    finish_command();
    if (letter == '(') ++depth_;
    if (letter == ')') depth_ = std::max(0, depth_ - 1);
    ++at_;
  }

  void read_here_delimiter() {
    if (here() == '-') ++at_;
    while (is_blank(here())) ++at_;
    const std::size_t begin = at_;
    while (at_ < text_.size() && !is_blank(here()) && here() != '\n' && !is_operator(here())) ++at_;
    std::string delimiter;
    for (const char letter : text_.substr(begin, at_ - begin)) {
      if (letter != '\'' && letter != '"' && letter != '\\') delimiter += letter;
    }
    if (!delimiter.empty()) here_documents_.push_back(std::move(delimiter));
  }

  void skip_here_documents() {
    for (const std::string& delimiter : here_documents_) {
      while (at_ < text_.size()) {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, end - at_);
        at_ = std::min(end + 1, text_.size());
        line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
        if (line == delimiter) break;
      }
    }
    here_documents_.clear();
  }

  void read_word() {
    ShellWord word;
    word.at.begin = at_;
    word.is_quoted_at_0 = here() == '\'' || here() == '"';
    while (at_ < text_.size() && !is_blank(here()) && here() != '\n' && !is_operator(here())) {
      read_part(word);
    }
    word.at.end = at_;
    if (is_redirected_) {  // the file of a redirection is not an argument
      is_redirected_ = false;
      return;
    }
    // The number of "2>file" is not a word either.
    if ((here() == '>' || here() == '<') && word.text.size() == 1 && word.text[0] >= '0' &&
        word.text[0] <= '9') {
      return;
    }
    add_word(std::move(word));
  }

  void read_part(ShellWord& word) {
    if (here() == '\'') {
      const std::size_t end = std::min(text_.find('\'', at_ + 1), text_.size());
      word.text += text_.substr(at_ + 1, end - at_ - 1);
      at_ = std::min(end + 1, text_.size());
    } else if (here() == '"') {
      ++at_;
      while (at_ < text_.size() && here() != '"') read_letter(word, /*is_quoted=*/true);
      at_ = std::min(at_ + 1, text_.size());
    } else {
      read_letter(word, /*is_quoted=*/false);
    }
  }

  void read_letter(ShellWord& word, bool is_quoted) {
    if (here() == '\\') {
      ++at_;
      if (at_ < text_.size() && here() != '\n') word.text += here();
      at_ = std::min(at_ + 1, text_.size());
    } else if (here() == '$' || here() == '`') {
      word.is_expanded = true;
      read_expansion(word);
    } else {
      if (!is_quoted && (here() == '*' || here() == '?' || here() == '~')) word.is_expanded = true;
      word.text += text_[at_++];
    }
  }

  /// "$(...)", "${...}" and "`...`" with their blanks; the rest is read letter by letter.
  void read_expansion(ShellWord& word) {
    const std::size_t begin = at_;
    if (here() == '`') {
      at_ = std::min(text_.find('`', at_ + 1), text_.size());
      at_ = std::min(at_ + 1, text_.size());
    } else if (next() == '(' || next() == '{') {
      const char open = next();
      const char close = open == '(' ? ')' : '}';
      int depth = 0;
      ++at_;
      while (at_ < text_.size()) {
        if (here() == open) ++depth;
        if (here() == close) --depth;
        ++at_;
        if (depth == 0) break;
      }
    } else {
      ++at_;
    }
    word.text += text_.substr(begin, at_ - begin);
  }

  void add_word(ShellWord word) {
    if (command_.words.empty() && !word.is_quoted_at_0) {
      const std::string_view text = word.text;
      if (is_one_of(text, kClosing)) {
        depth_ = std::max(0, depth_ - 1);
        shares_line_ = true;
        return;
      }
      if (is_one_of(text, kOpening)) {
        ++depth_;
        shares_line_ = true;
        return;
      }
      if (is_one_of(text, kSkipped)) {
        shares_line_ = true;
        return;
      }
    }
    command_.words.push_back(std::move(word));
  }

  void finish_command() {
    if (!command_.words.empty()) {
      const std::size_t begin = command_.words.front().at.begin;
      const std::size_t end = command_.words.back().at.end;
      const std::size_t before = begin == 0 ? std::string_view::npos : text_.rfind('\n', begin - 1);
      const std::size_t line_begin = before == std::string_view::npos ? 0 : before + 1;
      const std::size_t line_end = std::min(text_.find('\n', end), text_.size());
      command_.line = line_at(begin);
      command_.line_at = {line_begin, std::min(line_end + 1, text_.size())};
      command_.is_alone =
          !shares_line_ && only_blanks(line_begin, begin) && only_blanks(end, line_end);
      command_.is_nested = depth_ > 0 || here() == '|' || here() == '&';
      commands_.push_back(std::move(command_));
      command_ = {};
    }
    shares_line_ = false;
    is_redirected_ = false;
  }

  /// The line of a byte; each call goes on from where the last one was.
  int line_at(std::size_t at) {
    line_ += line_of(text_.substr(counted_), at - counted_) - 1;
    counted_ = at;
    return line_;
  }

  bool only_blanks(std::size_t begin, std::size_t end) const {
    return std::all_of(text_.begin() + static_cast<std::ptrdiff_t>(begin),
                       text_.begin() + static_cast<std::ptrdiff_t>(end), is_blank);
  }

  std::string_view text_;
  std::size_t at_;
  std::size_t counted_ = 0;  ///< Where line_ is.
  int line_ = 1;
  int depth_ = 0;
  bool shares_line_ = false;
  bool is_redirected_ = false;
  ShellCommand command_;
  std::vector<ShellCommand> commands_;
  std::vector<std::string> here_documents_;
};

}  // namespace

std::vector<ShellCommand> split_commands(std::string_view text, std::size_t begin) {
  return CommandReader(text, begin).read();
}

int line_of(std::string_view text, std::size_t at) {
  const std::size_t end = std::min(at, text.size());
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
}

}  // namespace hvd
