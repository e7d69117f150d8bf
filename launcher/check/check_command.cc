// SPDX-License-Identifier: Apache-2.0
#include "launcher/check/check_command.h"

#include <cstdio>

#include "launcher/check/check_cluster.h"
#include "launcher/check/check_library.h"
#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/options/version.h"

namespace hvd {

namespace {

CheckReport make_report() {
  RuntimeFound runtime = check_runtime();
  CheckReport report{version_number(), revision(), {{"runtime", {runtime.part}}}};
  for (CheckedGroup& group : runtime.groups) report.groups.push_back(std::move(group));
  report.groups.push_back(check_machine());
  return report;
}

}  // namespace

int run_check(const CheckOptions& options) {
  CheckReport report = make_report();
  if (!options.build) report.groups.push_back(check_cluster(Environment::of_process()));
  std::fputs((options.json ? report_json(report) : report_text(report)).c_str(), stdout);
  const bool is_found = report.groups.front().parts.front().available;
  return std::fflush(stdout) == 0 && is_found ? 0 : kExitFailure;
}

int run_version(const VersionOptions& options) {
  // Libraries are opened to be found: only on demand, --version is quick.
  const CheckReport report =
      options.verbose ? make_report() : CheckReport{version_number(), revision(), {}};
  return print_answer(options.json ? report_json(report) : report_text(report));
}

}  // namespace hvd
