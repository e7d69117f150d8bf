// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/app.h"
#include "launcher/options/parsers.h"

namespace hvd {

Result<CommandLine> parse_header(const std::vector<std::string>& arguments) {
  auto app = make_app("Prints a job header for a site.", "hvdrun header", true);
  app->prefix_command();
  HeaderOptions options;
  app->add_option("--site", options.site, "Site id, or the path of a site file")->type_name("SITE");
  app->add_option("-p,--partition", options.partition, "Partition (default: the site's)")
      ->type_name("NAME");
  app->add_option("--gpus", options.gpus, "GPUs, one rank each")->check(CLI::Range(1, 1 << 20));
  app->add_option("-N,--nodes", options.nodes, "Nodes, all their GPUs")
      ->check(CLI::Range(1, 1 << 20));
  app->add_option("-c,--cpus-per-task", options.cpus_per_task,
                  "Cores of each rank (default: the partition's)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app->add_option("-C,--constraint", options.constraint, "Node features, as sbatch takes them")
      ->type_name("LIST");
  app->add_option("-q,--qos", options.qos, "Quality of service (default: the site's)")
      ->type_name("NAME");
  app->add_option("-o,--output", options.output, "File of the job's output, as sbatch takes it")
      ->type_name("FILE");
  app->add_option("-t,--time", options.time, "Time limit")->type_name("HH:MM:SS");
  app->add_option("-A,--account", options.account, "Account to charge")->type_name("NAME");
  app->add_option("-J,--job-name", options.name, "Name of the job")->type_name("NAME");
  app->add_flag("--list", options.list, "Print the known sites and partitions");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, "header"));
  if (print) return CommandLine(*std::move(print));
  HVD_TRY_ASSIGN(options.command, program_of(*app, arguments, "header"));
  return CommandLine(std::move(options));
}

}  // namespace hvd
