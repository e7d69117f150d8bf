// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/salloc.h"

#include <string_view>

#include "launcher/options/sbatch_option.h"

namespace hvd {
namespace {

bool is_for_batch_jobs(const std::string& name) {
  const SbatchOption* option = find_sbatch_option(name);
  return option != nullptr && option->use == SbatchUse::kBatch;
}

Status refuse(std::string_view option) {
  return error(Code::kInvalidArgument, "an interactive allocation has no --{}: leave it out",
               option);
}

}  // namespace

Result<std::vector<std::string>> plan_salloc(const JobPlan& plan, const JobOptions& request) {
  if (!request.array.empty()) return refuse("array");
  if (request.requeue) return refuse("requeue");
  if (!request.output.empty()) return refuse("output");
  for (const SbatchSetting& setting : request.sbatch) {
    if (is_for_batch_jobs(setting.name)) return refuse(setting.name);
  }
  std::vector<std::string> words{"salloc"};
  for (const JobDirective& line : plan.directives) {
    if (is_for_batch_jobs(line.option)) continue;
    words.push_back("--" + line.option + (line.value.empty() ? "" : "=" + line.value));
  }
  if (request.command.empty()) return words;
  words.push_back(plan.hvdrun);
  words.insert(words.end(), plan.container.before_program.begin(),
               plan.container.before_program.end());
  words.insert(words.end(), request.command.begin(), request.command.end());
  return words;
}

}  // namespace hvd
