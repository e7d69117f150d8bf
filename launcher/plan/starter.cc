// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/starter.h"

namespace hvd {

Status check_starter(const SiteConfig& site, const Placement& placement) {
  if (!placement.srun || site.scheduler.launcher == "srun") return Status::ok();
  return error(Code::kInvalidArgument,
               "site {} starts the tasks of a job with {}: type `{} hvdrun PROGRAM`, and hvdrun "
               "becomes each rank (--site generic takes srun)",
               site.id, site.scheduler.launcher, site.scheduler.launcher);
}

}  // namespace hvd
