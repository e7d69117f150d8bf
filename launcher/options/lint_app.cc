// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/app.h"
#include "launcher/options/parsers.h"

namespace hvd {
namespace {

Result<LintFormat> parse_format(const std::string& text) {
  if (text == "text") return LintFormat::kText;
  if (text == "json") return LintFormat::kJson;
  if (text == "github") return LintFormat::kGithub;
  if (text == "sarif") return LintFormat::kSarif;
  return usage(format_text("--format is text, json, github or sarif, and not '{}'", text), "lint");
}

}  // namespace

Result<CommandLine> parse_lint(const std::vector<std::string>& arguments) {
  auto app = make_app(
      "Finds what is wrong in job scripts for sbatch, in the Python programs that they start and "
      "in\n"
      "the environment, and says why.\n"
      "Exit code: 0 nothing is wrong, 1 something is, 2 wrong usage.",
      "hvdrun lint", false);
  LintOptions options;
  std::string format = "text";
  app->add_option("FILE", options.files, "Job scripts and Python programs")->type_name("FILE");
  app->add_flag("--env", options.environment,
                "Check the variables of this environment, on this machine")
      ->group("What is checked");
  app->add_option("--site", options.site, "Site id or site file (default: found by the content)")
      ->type_name("SITE")
      ->group("What is checked");
  app->add_option("--slurm", options.slurm, "Version of the cluster's Slurm, such as 23.02")
      ->type_name("VERSION")
      ->group("What is checked");
  app->add_flag("--fix", options.fix, "Write the files mended, where a fix is mechanical")
      ->group("Output");
  app->add_option("--format", format, "How to print the findings")
      ->type_name("text|json|github|sarif")
      ->group("Output");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, "lint"));
  if (print) return CommandLine(*std::move(print));
  HVD_TRY_ASSIGN(options.format, parse_format(format));
  if (options.environment && (options.fix || !options.files.empty())) {
    return usage("--env checks this environment: it goes with neither files nor --fix", "lint");
  }
  if (options.files.empty() && !options.environment) {
    return usage("nothing to check: type hvdrun lint FILE..., or hvdrun lint --env", "lint");
  }
  return CommandLine(std::move(options));
}

}  // namespace hvd
