// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/job_command.h"

#include <cstdio>

#include "launcher/job/prepared_job.h"
#include "launcher/job/salloc.h"
#include "launcher/job/shell_word.h"
#include "launcher/job/site_list.h"
#include "launcher/run/exit_code.h"

namespace hvd {
namespace {

const char* name_of(JobAction action) {
  if (action == JobAction::kScript) return "script";
  return action == JobAction::kSubmit ? "submit" : "header";
}

Result<std::string> text_to_print(const JobOptions& options) {
  const Environment environment = Environment::of_process();
  if (options.list) return describe_sites(environment);
  HVD_TRY_ASSIGN(const PreparedJob job, prepare_job(options, environment));
  if (!options.interactive) return job.text;
  HVD_TRY_ASSIGN(const std::vector<std::string> words, plan_salloc(job.plan, options));
  return shell_line(words) + "\n";
}

}  // namespace

int run_job(const JobOptions& options) {
  const Result<std::string> text = text_to_print(options);
  if (!text.is_ok()) {
    std::fprintf(stderr, "hvdrun %s: %s\n", name_of(options.action),
                 text.status().message().c_str());
    return kExitUsage;
  }
  std::fputs(text.value().c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : kExitFailure;
}

}  // namespace hvd
