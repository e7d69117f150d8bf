// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/app.h"
#include "launcher/options/parsers.h"

namespace hvd {

Result<CommandLine> parse_env(const std::vector<std::string>& arguments) {
  auto app = make_app(
      "Prints the variables that hvdrun sets for the ranks here, beside those that tell a rank who "
      "it is. Works in a task, in a batch shell and on a login node.",
      "hvdrun env", false);
  EnvOptions options;
  bool explain = false;
  bool json = false;
  bool shell = false;
  app->add_option("--site", options.site, "Site, by id, alias or file (default: detected)")
      ->type_name("SITE")
      ->group("Machine");
  app->add_option("--nodes", options.nodes, "As on N nodes (default: those of the job, else 1)")
      ->type_name("N")
      ->group("Machine")
      ->check(CLI::Range(1, 65536));
  app->add_option(
         "--gpus", options.gpus,
         "As with N GPUs per node (default: those seen, or those of the first partition of a "
         "--site that is elsewhere)")
      ->type_name("N")
      ->group("Machine")
      ->check(CLI::Range(0, 64));
  app->add_option(
         "--fabric", options.fabric,
         "As on that fabric (default: detected, or that of the first partition of a --site that "
         "is elsewhere)")
      ->type_name("infiniband|roce|omni-path|aries|slingshot-10|slingshot-11|efa|ethernet")
      ->group("Machine");
  app->add_flag("--assume", options.assume, "Take assumed values, too")->group("Machine");
  app->add_flag("--explain", explain,
                "Origin, reason, source and date of each, what it overrides, and what is not set")
      ->group("Output");
  app->add_flag("--json", json, "The same for programs")->group("Output")->excludes("--explain");
  app->add_flag("--export", shell, "Lines for a shell: eval \"$(hvdrun env --export)\"")
      ->group("Output")
      ->excludes("--explain")
      ->excludes("--json");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, "env"));
  if (print) return *std::move(print);
  if (explain) options.form = EnvForm::kExplain;
  if (json) options.form = EnvForm::kJson;
  if (shell) options.form = EnvForm::kExport;
  return CommandLine(std::move(options));
}

Result<CommandLine> parse_sites(const std::vector<std::string>& arguments) {
  auto app = make_app(
      "Lists the known sites and says which of them this machine is; with a name, prints every "
      "value of that site with its source. With a name and --json it prints a site file: a copy "
      "to start your own from. 'hvdrun sites new' asks the cluster on which it is typed, and "
      "prints a draft of its site file.",
      "hvdrun sites", false);
  SitesOptions options;
  app->add_option("SITE", options.site, "Id, alias or file of a site; 'new' drafts one")
      ->type_name("");
  app->add_option("--id", options.draft_id, "Id of the draft (default: the cluster's name)")
      ->type_name("NAME")
      ->group("Draft");
  app->add_flag("--json", options.json, "Print it as JSON; of one site: its file")->group("Output");
  app->add_flag("--check", options.check,
                "Print all that is wrong with SITE, or with the files of sites and defaults in the "
                "folders of the user and the system")
      ->group("Output")
      ->excludes("--json");
  app->add_flag("--fields", options.fields, "Print what a site file may hold")
      ->group("Output")
      ->excludes("--json")
      ->excludes("--check");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, "sites"));
  if (print) return *std::move(print);
  options.is_draft = options.site == "new";
  if (!options.is_draft && !options.draft_id.empty()) {
    return usage("--id names a draft: type it with 'hvdrun sites new'", "sites");
  }
  return CommandLine(std::move(options));
}

}  // namespace hvd
