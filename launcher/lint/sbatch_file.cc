// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/sbatch_file.h"

#include <algorithm>

#include "base/format.h"
#include "launcher/lint/script_body.h"
#include "launcher/options/sbatch_option.h"

namespace hvd {
namespace {

constexpr std::string_view kMagic = "#SBATCH";

bool is_space(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }

/// A word of an #SBATCH line.
struct Word {
  std::string text;
  TextRange at;
  char open_quote = 0;  ///< 0: every quote is closed.
};

/// The words of bytes [at, end), with sbatch's rules: quotes, a backslash takes the next letter as
/// it is (also in quotes, but no blank outside of them), a # begins a comment.
std::vector<Word> words_of(std::string_view text, std::size_t at, std::size_t end) {
  std::vector<Word> words;
  while (at < end) {
    while (at < end && is_space(text[at])) ++at;
    if (at >= end || text[at] == '#') break;
    Word word{"", {at, at}, 0};
    char quote = 0;
    for (; at < end && (quote != 0 || !is_space(text[at])); ++at) {
      const char letter = text[at];
      if (quote != 0 && letter == quote) {
        quote = 0;
      } else if (quote == 0 && (letter == '\'' || letter == '"')) {
        quote = letter;
      } else if (letter == '\\') {
        const bool ends = at + 1 >= end || (quote == 0 && is_space(text[at + 1]));
        if (!ends) word.text += text[++at];
      } else if (quote == 0 && letter == '#') {
        end = at;  // the rest is a comment
        break;
      } else {
        word.text += letter;
      }
    }
    word.at.end = at;
    word.open_quote = quote;
    words.push_back(std::move(word));
  }
  return words;
}

/// One line of the header, while its words become directives.
struct HeaderLine {
  int number;
  TextRange at;  ///< With its end.
  std::vector<Word> words;
};

class HeaderReader {
 public:
  explicit HeaderReader(SbatchFile& file) : file_(file) {}

  void read_line(const HeaderLine& line) {
    const std::size_t first = file_.directives.size();
    for (std::size_t i = 0; i < line.words.size();) i = read_option(line, i);
    for (std::size_t i = first; i < file_.directives.size(); ++i) {
      Directive& directive = file_.directives[i];
      const bool is_alone = file_.directives.size() == first + 1;
      directive.gone_at = is_alone ? line.at : with_blank_before(directive.at);
    }
    if (line.words.empty()) return;
    if (const char quote = line.words.back().open_quote; quote != 0) {
      file_.broken.push_back({line.number, "bad-directive",
                              format_text("a quote ({}) is not closed", quote), "close it"});
    }
    for (std::size_t i = first; i < file_.directives.size(); ++i) check_value(file_.directives[i]);
  }

 private:
  TextRange with_blank_before(TextRange at) const {
    while (at.begin > 0 && is_space(file_.text[at.begin - 1])) --at.begin;
    return at;
  }

  /// The index of the next word to read.
  std::size_t read_option(const HeaderLine& line, std::size_t i) {
    const Word& word = line.words[i];
    if (word.text.starts_with("--") && word.text.size() > 2) return read_long(line, i);
    if (word.text.starts_with('-') && word.text.size() > 1) return read_short(line, i);
    if (continues_constraint(line, word)) return i + 1;
    file_.broken.push_back(
        {line.number, "bad-directive",
         format_text("'{}' is not an option: a blank ends the option before it", word.text),
         "put quotes around a value with blanks, or leave the blanks out"});
    return i + 1;
  }

  /// "-C gpu & hbm80g" is one mistake, not three: the value goes on.
  bool continues_constraint(const HeaderLine& line, const Word& word) {
    constexpr std::string_view kJoints = "&|,";
    if (file_.directives.empty()) return false;
    Directive& last = file_.directives.back();
    if (last.line != line.number || last.option != "constraint" || !last.value) return false;
    if (last.value->empty() || word.text.empty()) return false;
    if (kJoints.find(word.text.front()) == std::string_view::npos &&
        kJoints.find(last.value->back()) == std::string_view::npos) {
      return false;
    }
    *last.value += " " + word.text;
    last.value_at.end = word.at.end;
    last.at.end = word.at.end;
    return true;
  }

  std::size_t read_long(const HeaderLine& line, std::size_t i) {
    const Word& word = line.words[i];
    const std::size_t equals = word.text.find('=');
    const std::string name = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    Directive directive{.option = name,
                        .spelled = "--" + name,
                        .value = std::nullopt,
                        .line = line.number,
                        .at = word.at,
                        .value_at = {word.at.end, word.at.end},
                        .gone_at = {}};
    const SbatchOption* option = find_sbatch_option(name);
    if (option != nullptr) directive.option = option->name;
    directive.is_known = option != nullptr;
    std::size_t next = i + 1;
    if (equals != std::string::npos) {
      directive.value = word.text.substr(equals + 1);
      const std::size_t raw = file_.text.find('=', word.at.begin);
      directive.value_at = {std::min(raw + 1, word.at.end), word.at.end};
    } else if (takes_next_word(line, next, option)) {
      next = take_next(line, i, directive);
    }
    file_.directives.push_back(std::move(directive));
    return next;
  }

  /// Of an option that we do not know: most take a value.
  static bool takes_next_word(const HeaderLine& line, std::size_t next,
                              const SbatchOption* option) {
    if (option != nullptr) return option->argument == OptionArgument::kRequired;
    return next < line.words.size() && !line.words[next].text.starts_with('-');
  }

  std::size_t read_short(const HeaderLine& line, std::size_t i) {
    const Word& word = line.words[i];
    const SbatchOption* option = find_sbatch_letter(word.text[1]);
    Directive directive{
        .option = option == nullptr ? word.text.substr(1) : std::string(option->name),
        .spelled = word.text.substr(0, 2),
        .value = std::nullopt,
        .line = line.number,
        .is_known = option != nullptr,
        .at = word.at,
        .value_at = {word.at.end, word.at.end},
        .gone_at = {}};
    std::size_t next = i + 1;
    if (option != nullptr && option->argument != OptionArgument::kNone && word.text.size() > 2) {
      directive.value = word.text.substr(2);
      directive.value_at = {word.at.begin + 2, word.at.end};
    } else if (option != nullptr && option->argument == OptionArgument::kRequired) {
      next = take_next(line, i, directive);
    }
    file_.directives.push_back(std::move(directive));
    return next;
  }

  std::size_t take_next(const HeaderLine& line, std::size_t i, Directive& directive) {
    if (i + 1 >= line.words.size()) {
      file_.broken.push_back({directive.line, "bad-directive",
                              format_text("{} needs a value", directive.spelled),
                              format_text("write {}=VALUE", directive.spelled)});
      return i + 1;
    }
    const Word& value = line.words[i + 1];
    directive.value = value.text;
    directive.value_at = value.at;
    directive.at.end = value.at.end;
    return i + 2;
  }

  void check_value(const Directive& directive) {
    if (!directive.is_known) {
      const std::string_view nearest = nearest_sbatch_option(directive.option);
      if (nearest.empty() || !directive.spelled.starts_with("--")) return;
      BrokenDirective broken{directive.line, "bad-directive",
                             format_text("sbatch has no option {}", directive.spelled),
                             format_text("write --{}", nearest)};
      broken.mended_at =
          TextRange{directive.at.begin, directive.at.begin + directive.spelled.size()};
      broken.mended = format_text("--{}", nearest);
      file_.broken.push_back(std::move(broken));
      return;
    }
    if (directive.value && directive.value->find('$') != std::string::npos &&
        directive.option != "wrap" && directive.option != "comment") {
      file_.broken.push_back(
          {directive.line, "bad-directive",
           format_text("{}: sbatch takes '{}' as it stands; no shell has read it",
                       directive.spelled, *directive.value),
           "write the value itself, a pattern such as %j, or give it on sbatch's command line"});
    }
  }

  SbatchFile& file_;
};

/// "# SBATCH": how some people switch a line off, and a slip of others. Decided at the end, when it
/// is known whether another line gives the option.
void note_switched_off(SbatchFile& file, std::string_view options, int number) {
  const std::size_t begin = options.find('-');
  const std::size_t name = std::min(options.find_first_not_of('-', begin), options.size());
  const std::size_t end = std::min(options.find_first_of("= \t\r", name), options.size());
  const std::string_view typed = options.substr(name, end - name);
  const SbatchOption* option = name - begin == 1 && !typed.empty() ? find_sbatch_letter(typed[0])
                                                                   : find_sbatch_option(typed);
  if (option != nullptr) file.switched_off.push_back({number, std::string(option->name)});
}

/// Why a line that looks like a directive is none; empty: it does not look like one.
void note_lookalike(SbatchFile& file, std::string_view line, TextRange at, int number) {
  const std::size_t indent = std::min(line.find_first_not_of(" \t"), line.size());
  std::string_view rest = line.substr(indent);
  if (!rest.starts_with('#') || rest.starts_with("##") || rest.starts_with("#!")) return;
  const std::size_t blanks = std::min(rest.find_first_not_of(" \t", 1), rest.size());
  const std::string_view word = rest.substr(blanks, 6);
  const bool is_upper = word == "SBATCH";
  if (!is_upper && word != "sbatch" && word != "Sbatch") return;
  const std::string_view after = rest.substr(std::min(blanks + 6, rest.size()));
  if (after.empty() || !is_space(after.front())) return;
  const std::size_t value = after.find_first_not_of(" \t");
  if (value == std::string_view::npos || after[value] != '-') return;
  if (blanks > 1 && indent == 0) {
    note_switched_off(file, after, number);
    return;
  }
  BrokenDirective broken{number, "unread-directive",
                         indent > 0 ? "blanks stand before #SBATCH, so this is a comment"
                                    : "#SBATCH is written in capitals, so this is a comment",
                         "write #SBATCH at the beginning of the line"};
  broken.mended_at = TextRange{at.begin, at.begin + indent + blanks + 6};
  broken.mended = kMagic;
  file.broken.push_back(std::move(broken));
}

bool is_python_script(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  return first.starts_with("#!") && first.find("python") != std::string_view::npos;
}

bool is_command(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  return first != std::string_view::npos && line[first] != '#';
}

}  // namespace

SbatchFile parse_sbatch_file(std::string text) {
  SbatchFile file;
  file.text = std::move(text);
  const std::string_view all = file.text;
  HeaderReader header(file);
  bool in_header = true;
  std::size_t body = all.size();
  int number = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    ++number;
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    const TextRange at{begin, std::min(end + 1, all.size())};
    const std::string_view line = all.substr(begin, end - begin);
    const bool is_directive =
        line.starts_with(kMagic) && (line.size() == kMagic.size() || is_space(line[kMagic.size()]));
    if (in_header && is_directive) {
      header.read_line({number, at, words_of(all, begin + kMagic.size(), end)});
      file.directives_end = at.end;
    } else if (is_directive && line.find('-') != std::string_view::npos) {
      file.broken.push_back({number, "unread-directive",
                             "a command stands above, where sbatch stopped reading",
                             "move the line above the first command"});
    } else if (in_header && is_command(line)) {
      in_header = false;
      body = begin;
    } else if (in_header) {
      note_lookalike(file, line, at, number);
      if (number == 1 && line.starts_with("#!")) file.directives_end = at.end;
    }
    begin = at.end;
  }
  // A job script may be a program: what sbatch reads of it is its header.
  if (!is_python_script(all)) read_script_body(file, body);
  return file;
}

const Directive* find_directive(const SbatchFile& file, std::string_view option) {
  const auto found =
      std::find_if(file.directives.rbegin(), file.directives.rend(),
                   [&](const Directive& one) { return one.is_known && one.option == option; });
  return found == file.directives.rend() ? nullptr : &*found;
}

}  // namespace hvd
