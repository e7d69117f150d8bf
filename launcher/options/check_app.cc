// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/app.h"
#include "launcher/options/parsers.h"

namespace hvd {

Result<CommandLine> parse_check(const std::vector<std::string>& arguments) {
  auto app = make_app(
      "Says what works here, and why each missing part is missing; on a machine of Slurm also what "
      "the "
      "cluster is like now, and where the site file says otherwise.",
      "hvdrun check", false);
  CheckOptions options;
  app->add_flag("--build", options.build,
                "What this build and this machine have, and no more: Slurm is not asked");
  app->add_flag("--json", options.json, "Print it as JSON");
  HVD_TRY_ASSIGN(auto print, parse_with(*app, arguments, "check"));
  if (print) return CommandLine(*std::move(print));
  return CommandLine(options);
}

}  // namespace hvd
