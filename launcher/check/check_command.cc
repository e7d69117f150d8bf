// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/check_command.h"

#include <cstdio>

#include "base/environment.h"
#include "base/read_setting.h"
#include "launcher/check/check_cluster.h"
#include "launcher/check/check_library.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/options/version.h"

namespace hvd {

namespace {

CheckReport make_report(const Environment& environment) {
  RuntimeFound runtime = check_runtime(read_text(environment, "HVD_LIBRARY"));
  CheckReport report{version_number(), revision(), {{"runtime", {runtime.part}}}};
  for (CheckedGroup& group : runtime.groups) report.groups.push_back(std::move(group));
  report.groups.push_back(check_machine());
  return report;
}

}  // namespace

int run_check(const CheckOptions& options) {
  const Environment environment = Environment::of_process();
  CheckReport report = make_report(environment);
  if (!options.build) report.groups.push_back(check_cluster(environment));
  std::fputs((options.json ? report_json(report) : report_text(report)).c_str(), stdout);
  const bool is_found = report.groups.front().parts.front().available;
  return std::fflush(stdout) == 0 && is_found ? 0 : kExitFailure;
}

int run_version(const VersionOptions& options) {
  // Libraries are opened to be found: only on demand, --version is quick.
  const CheckReport report = options.verbose ? make_report(Environment::of_process())
                                             : CheckReport{version_number(), revision(), {}};
  return print_answer(options.json ? report_json(report) : report_text(report));
}

}  // namespace hvd
