// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/app.h"
#include "launcher/options/parsers.h"

namespace hvd {

Result<CommandLine> parse_attach(const std::vector<std::string>& arguments) {
  auto app = make_app(
      "Watches a job that hvdrun --detach has started: shows what it writes until it ends, and "
      "ends with its exit code. Ctrl-C ends the watching, never the job. Without a number: the "
      "list of jobs.",
      "hvdrun attach", false);
  AttachOptions options;
  auto* job = app->add_option("job", options.job, "Number of the job")
                  ->type_name("JOB")
                  ->group("Job")
                  ->check(CLI::Range(1, 1000000));
  app->add_flag("--all", options.all,
                "Show what it has written from the beginning on (default: the last 16 KiB)")
      ->group("Job")
      ->needs(job);
  app->add_flag(
         "--end", options.end,
         "Tell the job to end, as Ctrl-C does for one that is not detached, and watch its end")
      ->group("Job")
      ->needs(job);
  app->add_flag("--json", options.json, "Print the list as JSON")->group("Output")->excludes(job);
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, "attach"));
  if (print) return *std::move(print);
  return CommandLine(options);
}

}  // namespace hvd
