// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "launcher/check/check_command.h"
#include "launcher/cluster/read_cluster.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/describe/describe_command.h"
#include "launcher/detach/attach_command.h"
#include "launcher/detach/detach.h"
#include "launcher/env/env_command.h"
#include "launcher/job/job_command.h"
#include "launcher/lint/lint_command.h"
#include "launcher/node/topo_command.h"
#include "launcher/options/command_line.h"
#include "launcher/preempt/preempt_command.h"
#include "launcher/run/run_command.h"

namespace hvd {
namespace {

struct RunChosen {
  int operator()(const RunOptions& options) const {
    const auto run = [&] { return run_program(options, read_job_nodes); };
    return options.detach && !options.dry_run ? detach_job(options.command, run) : run();
  }
  int operator()(const AttachOptions& options) const { return run_attach(options); }
  int operator()(const EnvOptions& options) const { return run_env(options); }
  int operator()(const SitesOptions& options) const { return run_sites(options); }
  int operator()(const JobOptions& options) const { return run_job(options); }
  int operator()(const CheckOptions& options) const { return run_check(options); }
  int operator()(const PreemptOptions& options) const { return run_test_preempt(options); }
  int operator()(const TopoOptions& options) const { return run_topo(options); }
  int operator()(const VersionOptions& options) const { return run_version(options); }
  int operator()(const CompletionOptions& options) const { return run_completion(options); }
  int operator()(const DescribeOptions& options) const { return run_describe(options); }
  int operator()(const LintOptions& options) const { return run_lint(options); }
  int operator()(const PrintAndExit& print) const { return print_help(print.text); }
  int operator()(const CommandDescription& /*description*/) const { return kExitUsage; }
};

/// Where the caller closed standard input, output or error, the next descriptor that is opened, a
/// socket maybe, would be taken for it.
void open_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1) continue;
    (void)::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);  // the lowest free one: fd
  }
}

int run_main(const std::vector<std::string>& arguments) {
  const Result<CommandLine> parsed = parse_command_line(arguments);
  if (!parsed.is_ok()) {
    print_message(parsed.status().message());
    return kExitUsage;
  }
  return std::visit(RunChosen(), parsed.value());
}

}  // namespace
}  // namespace hvd

int main(int argc, char** argv) {
  hvd::open_standard_descriptors();
  try {
    return hvd::run_main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& out_of_memory) {  // nothing of ours throws
    std::fprintf(stderr, "hvdrun: %s\n", out_of_memory.what());
    return hvd::kExitFailure;
  }
}
