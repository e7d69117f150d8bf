// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/check_command.h"

#include <cstdio>

#include "launcher/check/check_library.h"
#include "launcher/run/exit_code.h"

namespace hvd {

int run_check(const CheckOptions& options) {
  if (!options.build) {
    std::fputs("hvdrun check: what shall be checked? Type hvdrun check --build\n", stderr);
    return kExitUsage;
  }
  RuntimeFound runtime = check_runtime();
  CheckReport report{HVD_VERSION, {{"runtime", {runtime.part}}}};
  for (CheckedGroup& group : runtime.groups) report.groups.push_back(std::move(group));
  report.groups.push_back(check_machine());
  std::fputs((options.json ? report_json(report) : report_text(report)).c_str(), stdout);
  return std::fflush(stdout) == 0 && runtime.part.available ? 0 : kExitFailure;
}

}  // namespace hvd
