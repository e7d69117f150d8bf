// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/job_command.h"

#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/console/shell_word.h"
#include "launcher/job/prepared_job.h"
#include "launcher/job/salloc.h"
#include "launcher/job/site_list.h"
#include "launcher/job/submit_command.h"

namespace hvd {
namespace {

/// Prints or submits; a failure is one of the request.
Result<int> do_job(const JobOptions& options, const Environment& environment) {
  if (options.list) {
    HVD_TRY_ASSIGN(const std::string sites, describe_sites(environment, options.json));
    return print_answer(sites);
  }
  HVD_TRY_ASSIGN(const PreparedJob job, prepare_job(options, environment));
  const bool submits = options.action == JobAction::kSubmit;
  if (options.interactive) {
    HVD_TRY_ASSIGN(const std::vector<std::string> words, plan_salloc(job.plan, options));
    if (submits && !options.dry_run) return become_salloc(words, environment);
    return print_answer(shell_line(words) + "\n");
  }
  return submits ? submit_job(job, options, environment) : print_answer(job.text);
}

}  // namespace

int run_job(const JobOptions& options) {
  const Result<int> code = do_job(options, Environment::of_process());
  if (code.is_ok()) return code.value();
  print_message(code.status().message());
  return kExitUsage;
}

}  // namespace hvd
