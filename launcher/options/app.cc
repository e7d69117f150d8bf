// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/app.h"

#include <algorithm>

namespace hvd {
namespace {

/// The help, with a usage line that ends in the program: everything from there on is the program's.
class ProgramFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return format_text("Usage: {} [OPTIONS] PROGRAM [ARGUMENTS...]\n", name);
  }
};

}  // namespace

Status usage(std::string_view what, std::string_view command) {
  return error(Code::kInvalidArgument, "{}; try 'hvdrun{}{} --help'", what,
               command.empty() ? "" : " ", command);
}

std::unique_ptr<CLI::App> make_app(const std::string& description, const std::string& name,
                                   bool takes_program) {
  auto app = std::make_unique<CLI::App>(description, name);
  app->allow_windows_style_options(false);
  if (takes_program) app->formatter(std::make_shared<ProgramFormatter>());
  app->get_formatter()->column_width(34);
  return app;
}

Result<std::optional<PrintAndExit>> parse_with(CLI::App& app, std::vector<std::string> arguments,
                                               std::string_view command) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 pops from the back.
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return std::optional(PrintAndExit{app.help()});
  } catch (const CLI::CallForVersion&) {
    return std::optional(PrintAndExit{app.version() + "\n"});
  } catch (const CLI::ParseError& failure) {
    std::string what = failure.what();
    // As the user typed it: CLI11 saw "--np".
    if (what.starts_with("--np:")) what.replace(0, 5, "-np:");
    return usage(what, command);
  }
  return std::optional<PrintAndExit>();
}

Result<std::vector<std::string>> program_of(const CLI::App& app,
                                            const std::vector<std::string>& arguments,
                                            std::string_view command) {
  const std::vector<std::string> rest = app.remaining();
  const bool marked = !rest.empty() && rest.front() == "--";
  const std::size_t count = rest.size() - (marked ? 1 : 0);
  std::vector<std::string> program(arguments.end() - static_cast<std::ptrdiff_t>(count),
                                   arguments.end());
  if (!marked && !program.empty() && program.front().starts_with("-")) {
    return usage(format_text("unknown option '{}'", program.front()), command);
  }
  return program;
}

}  // namespace hvd
