// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/app.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "launcher/console/line_width.h"
#include "launcher/options/command_table.h"
#include "launcher/options/foreign_option.h"
#include "launcher/options/nearest.h"
#include "launcher/options/unknown_word.h"

namespace hvd {
namespace {

const std::string kOther = "Other";

/// As the user types it: CLI11 knows one-letter short flags only, so "-np" is "--np" to it.
std::string as_typed(const std::string& long_name) {
  return long_name == "np" ? "-np" : "--" + long_name;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back(as_typed(name));
  return names;
}

/// The type_name as it was given: CLI11 appends what its checks say.
std::string value_of(CLI::Option& option) {
  if (option.get_type_size_max() == 0) return "";
  std::string checks;
  try {
    for (int i = 0;; ++i) {
      const std::string check = option.get_validator(i)->get_description();
      if (!check.empty()) checks += ":" + check;
    }
  } catch (const CLI::OptionNotFound&) {  // there is no way to ask how many there are
  }
  std::string name = option.get_type_name();
  if (name.ends_with(checks)) name.resize(name.size() - checks.size());
  return name == "INT" || name == "UINT" ? "N" : name;
}

CommandDescription describe(CLI::App& app, const CommandEntry& entry) {
  CommandDescription command{std::string(entry.name),
                             std::string(entry.group),
                             std::string(entry.summary),
                             app.get_description(),
                             std::string(entry.operands),
                             {},
                             {}};
  for (const CommandExample& example : entry.examples) {
    if (!example.line.empty()) command.examples.push_back(example);
  }
  for (CLI::Option* option : app.get_options()) {
    if (option->get_group().empty() || option == app.get_help_ptr()) continue;
    OptionDescription described{names_of(*option), value_of(*option), option->get_description(),
                                option->get_group(), option->get_items_expected_max() > 1};
    const bool is_list = described.value.find('|') != std::string::npos;
    if (option->get_positional() && !is_list) described.value = option->get_name(true);
    command.options.push_back(std::move(described));
  }
  const std::vector<std::string> groups = command.option_groups();
  const bool has_other = std::find(groups.begin(), groups.end(), kOther) != groups.end();
  command.options.push_back({{"-h", "--help"},
                             "",
                             "Print this help",
                             groups.empty() || has_other ? kOther : groups.back()});
  return command;
}

const CommandEntry& entry_of(std::string_view command) {
  const CommandEntry* entry = find_command(command.empty() ? "run" : command);
  HVD_CHECK(entry != nullptr);
  return *entry;
}

std::string help_of(CLI::App& app, std::string_view command) {
  const CommandEntry& entry = entry_of(command);
  // Hidden commands are described by nobody else; hvdrun's own help lists the others.
  const bool is_whole = entry.name == "run";
  constexpr std::size_t kNarrowest = 50;
  const std::size_t width =
      line_width(STDOUT_FILENO, Environment::of_process()).value_or(kHelpWidth);
  return help_text(describe(app, entry),
                   is_whole ? describe_commands() : std::vector<CommandDescription>(),
                   std::clamp(width, kNarrowest, kHelpWidth));
}

std::string help_line(std::string_view command) {
  const bool is_run = command.empty() || command == "run";
  return format_text("'hvdrun{}{} --help' lists the options", is_run ? "" : " ",
                     is_run ? "" : command);
}

/// The option of ours that `word` is a slip of; empty: none. One letter is a slip of no other.
std::string nearest_option(CLI::App& app, const std::string& word) {
  if (word.size() == 2) return "";
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : names_of(*option)) {
      if (name.size() > 2) known.push_back(name);
    }
  }
  return nearest(word.substr(0, word.find('=')), known);
}

/// What to do about a word that is not an option; empty: nothing is known of it.
std::string remedy_for(CLI::App& app, const UnknownWord& unknown, std::string_view command) {
  std::string remedy = right_spelling(app, unknown);
  if (remedy.empty()) remedy = foreign_remedy(unknown.word, command);
  if (!remedy.empty()) return remedy;
  const std::string meant = nearest_option(app, unknown.word);
  if (!meant.empty()) return format_text("did you mean {}? {}", meant, help_line(command));
  return std::string(foreign_letter_remedy(unknown.word, command));
}

Status unknown_option(CLI::App& app, const UnknownWord& unknown, std::string_view command) {
  const std::string remedy = remedy_for(app, unknown, command);
  // The value of what nobody knows may be a secret that was meant for the program.
  const std::string typed =
      remedy.empty() ? unknown.word.substr(0, unknown.word.find('=')) : unknown.word;
  return error(Code::kInvalidArgument, "unknown option '{}'\nhint: {}", typed,
               remedy.empty() ? help_line(command) : remedy);
}

/// "--bind: 'core' is not one of cores, none".
Status bad_choice(const OptionDescription& option, const std::string& value) {
  const std::vector<std::string> choices = option.choices();
  std::string list;
  for (const std::string& choice : choices) list += (list.empty() ? "" : ", ") + choice;
  const std::string meant = nearest(value, choices);
  return error(Code::kInvalidArgument, "{}: '{}' is not one of {}{}{}{}", option.names.back(),
               value, list, meant.empty() ? "" : "\nhint: did you mean ", meant,
               meant.empty() ? "" : "?");
}

bool is_whole_number(std::string_view text) {
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  return text.size() > sign && text.find_first_not_of("0123456789", sign) == std::string_view::npos;
}

bool is_number(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  return failure == std::errc() && rest == end && std::isfinite(number);
}

/// "'four' is not a whole number; type one from 1 to 65536", of CLI11's "Value four not in range 1
/// to 65536"; empty: it is about something else.
std::string range_failure(const std::string& sentence, const std::string& kind,
                          const std::string& value) {
  constexpr std::string_view kWords = " not in range ";
  constexpr std::string_view kZeros = ".000000";  // of a double
  const std::size_t place = sentence.rfind(kWords);
  if (place == std::string::npos) return "";
  std::string range = sentence.substr(place + kWords.size());
  for (std::size_t at = range.find(kZeros); at != std::string::npos; at = range.find(kZeros)) {
    range.erase(at, kZeros.size());
  }
  const bool is_whole = kind == "N";
  const bool is_read = is_whole ? is_whole_number(value) : is_number(value);
  if (is_read) return format_text("{} is not in the range {}", value, range);
  return format_text("'{}' is not a {}; type one from {}", value,
                     is_whole ? "whole number" : "number", range);
}

/// The option that CLI11's sentence is about: its name is the first of ours in there.
CLI::Option* option_named_in(CLI::App& app, const std::string& sentence) {
  CLI::Option* found = nullptr;
  std::size_t first = std::string::npos;
  for (CLI::Option* option : app.get_options()) {
    const std::size_t place = (" " + sentence).find(" " + option->get_name());
    const std::size_t after = place + option->get_name().size();
    if (place == std::string::npos || place >= first) continue;
    if (after < sentence.size() && sentence[after] != ':' && sentence[after] != ' ') continue;
    found = option;
    first = place;
  }
  return found;
}

/// CLI11's sentence in our words.
Status option_failure(CLI::App& app, const CLI::ParseError& failure, std::string_view command) {
  const std::string what = failure.what();
  CLI::Option* option = option_named_in(app, what);
  if (option == nullptr || option->get_positional()) return usage(what, command);
  const OptionDescription described{names_of(*option), value_of(*option), "", "", false};
  const std::string name = described.names.back();
  const std::string value = option->results().empty() ? "" : option->results().back();
  if (failure.get_name() == "ArgumentMismatch" && option->count() > 1) {
    return usage(format_text("{} is given {} times: type it once", name, option->count()), command);
  }
  if (failure.get_name() == "ArgumentMismatch") {
    return usage(format_text("{0} needs a value: {0} {1}", name, described.value), command);
  }
  if (failure.get_name() == "ConversionError") {
    return usage(format_text("{} {}: '{}' is not what it takes", name, described.value, value),
                 command);
  }
  if (failure.get_name() == "ValidationError" && !described.choices().empty()) {
    return bad_choice(described, value);
  }
  const std::string range = range_failure(what, described.value, value);
  if (!range.empty()) return usage(format_text("{}: {}", name, range), command);
  if (failure.get_name() == "ExcludesError") {
    const std::size_t space = what.find(" excludes ");
    return usage(
        format_text("{} and {} exclude each other", what.substr(0, space), what.substr(space + 10)),
        command);
  }
  return usage(what, command);
}

}  // namespace

Status usage(std::string_view what, std::string_view command) {
  return error(Code::kInvalidArgument, "{}\nhint: {}", what, help_line(command));
}

std::unique_ptr<CLI::App> make_app(const std::string& description, const std::string& name,
                                   bool takes_program) {
  auto app = std::make_unique<CLI::App>(description, name);
  app->allow_windows_style_options(false);
  if (takes_program) app->prefix_command();
  return app;
}

Result<std::optional<CommandLine>> parse_with(CLI::App& app, std::vector<std::string> arguments,
                                              std::string_view command) {
  if (arguments.size() == 1 && arguments.front() == kDescribe) {
    return std::optional(CommandLine(describe(app, entry_of(command))));
  }
  if (const auto unknown = unknown_word(app, arguments, command)) {
    return unknown_option(app, *unknown, command);
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 pops from the back.
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return std::optional(CommandLine(PrintAndExit{help_of(app, command)}));
  } catch (const CLI::ExtrasError&) {
    const std::string word = app.remaining().front();
    if (word.starts_with("-")) return unknown_option(app, {word, ""}, command);
    return usage(format_text("unexpected argument '{}'", word), command);
  } catch (const CLI::ParseError& failure) {
    return option_failure(app, failure, command);
  }
  return std::optional<CommandLine>();
}

Result<std::vector<std::string>> program_of(CLI::App& app,
                                            const std::vector<std::string>& arguments,
                                            std::string_view command) {
  const std::vector<std::string> rest = app.remaining();
  const bool marked = !rest.empty() && rest.front() == "--";
  // CLI11 reads on after an option that it does not know.
  if (!marked && !rest.empty() && rest.front().starts_with("-")) {
    return unknown_option(app, {rest.front(), ""}, command);
  }
  const std::size_t count = rest.size() - (marked ? 1 : 0);
  return std::vector<std::string>(arguments.end() - static_cast<std::ptrdiff_t>(count),
                                  arguments.end());
}

}  // namespace hvd
