// SPDX-License-Identifier: Apache-2.0
#include "launcher/describe/describe_command.h"

#include "bootstrap/local_host.h"
#include "launcher/console/message.h"
#include "launcher/describe/completion.h"
#include "launcher/describe/pages.h"
#include "launcher/options/command_table.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

std::string site_names(const Environment& environment) {
  std::string text;
  const Result<std::vector<SiteEntry>> sites = site_index(environment);
  if (!sites.is_ok()) return text;  // completion is no place to complain
  for (const SiteEntry& site : sites.value()) {
    if (site.problem.empty()) text += site.id + "\n";
  }
  return text;
}

std::string partition_names(const std::string& name, const Environment& environment) {
  const Result<SiteConfig> site =
      name.empty() ? detect_site(environment, local_host_name()) : find_site(name, environment);
  std::string text;
  if (!site.is_ok()) return text;
  for (const SitePartition& partition : site.value().partitions) text += partition.name + "\n";
  return text;
}

/// One option a line: a name, a tab, what stands for the value.
std::string option_lines(const CommandDescription& command) {
  std::string text;
  for (const OptionDescription& option : command.options) {
    for (const std::string& name : option.names) text += name + "\t" + option.value + "\n";
  }
  return text;
}

}  // namespace

int run_completion(const CompletionOptions& options) {
  const Environment environment = Environment::of_process();
  if (options.values == "SITE") return print_answer(site_names(environment));
  if (options.values == "PARTITION")
    return print_answer(partition_names(options.site, environment));
  const std::vector<CommandDescription> commands = describe_commands();
  if (options.shell == "bash") return print_answer(bash_completion(commands));
  if (options.shell == "zsh") return print_answer(zsh_completion(commands));
  return print_answer(fish_completion(commands));
}

int run_describe(const DescribeOptions& options) {
  const std::vector<CommandDescription> commands = describe_commands();
  if (options.format == "markdown") return print_answer(reference_page(commands));
  if (options.format == "commands") {
    std::string text;
    for (const CommandDescription& command : commands) text += command.name + "\n";
    return print_answer(text);
  }
  const CommandDescription command = describe_command(*find_command(options.command));
  return print_answer(options.format == "scdoc" ? man_page(command, commands)
                                                : option_lines(command));
}

}  // namespace hvd
