// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/job_command.h"

#include "bootstrap/local_host.h"
#include "launcher/cluster/site_look.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/console/shell_word.h"
#include "launcher/job/live_warnings.h"
#include "launcher/job/prepared_job.h"
#include "launcher/job/salloc.h"
#include "launcher/job/site_list.h"
#include "launcher/job/submission.h"
#include "launcher/job/submit_command.h"
#include "launcher/site/secret.h"
#include "launcher/site/site_catalog.h"

namespace hvd {
namespace {

/// Says where the job goes to a machine that is not of its site.
Status say_elsewhere(const SiteConfig& site, const Environment& environment) {
  HVD_TRY_ASSIGN(const SiteConfig here, detect_site(environment, local_host_name()));
  const std::string note = elsewhere_note(site, here);
  if (!note.empty()) print_message(note);
  return Status::ok();
}

/// Says where the cluster as it is now disagrees; the job is written all the same, since Slurm
/// decides.
void hold_against_cluster(const PreparedJob& job, const Environment& environment) {
  const SiteLook look = look_at_site(job.site, environment);
  if (!look.problem.empty()) print_message(look.problem);
  if (look.live) print_messages(live_warnings(job.site, job.plan, *look.live));
}

/// Prints or submits; a failure is one of the request.
Result<int> do_job(const JobOptions& options, const Environment& environment) {
  if (options.list) {
    HVD_TRY_ASSIGN(const std::string sites,
                   describe_sites(environment, options.site, options.json));
    return print_answer(sites);
  }
  HVD_TRY_ASSIGN(const PreparedJob job, prepare_job(options, environment));
  hold_against_cluster(job, environment);
  const bool submits = options.action == JobAction::kSubmit;
  if (submits && !options.site.empty()) HVD_TRY(say_elsewhere(job.site, environment));
  if (options.interactive) {
    HVD_TRY_ASSIGN(const std::vector<std::string> words, plan_salloc(job.plan, options));
    if (submits && !options.dry_run) return become_salloc(words, environment);
    return print_answer(shell_line(submits ? shown_arguments(words) : words) + "\n");
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
