// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/salloc.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace hvd {
namespace {

constexpr std::array<std::string_view, 7> kBatchOnly{"array",  "requeue", "no-requeue", "open-mode",
                                                     "output", "error",   "export"};

Status refuse(std::string_view option) {
  return error(Code::kInvalidArgument, "an interactive allocation has no --{}: leave it out",
               option);
}

}  // namespace

Result<std::vector<std::string>> plan_salloc(const JobPlan& plan, const JobOptions& request) {
  if (!request.array.empty()) return refuse("array");
  if (request.requeue) return refuse("requeue");
  if (!request.output.empty()) return refuse("output");
  std::vector<std::string> words{"salloc"};
  for (const JobDirective& line : plan.directives) {
    if (std::find(kBatchOnly.begin(), kBatchOnly.end(), line.option) != kBatchOnly.end()) continue;
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
