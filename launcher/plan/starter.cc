// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/starter.h"

#include "topology/identity.h"

namespace hvd {

Status check_lone_size(const RunOptions& options, const Allocation& allocation,
                       const Placement& placement) {
  if (allocation.local() == nullptr || options.ranks) return Status::ok();
  const std::string_view name = size_without_rank(allocation.environment);
  const std::string size = allocation.environment.get(name).value_or("");
  if (name.empty() || size == std::to_string(placement.size)) return Status::ok();
  return error(Code::kInvalidArgument,
               "{0}={1} speaks of several ranks, no variable gives this process a rank, and {2} "
               "would start here: type `hvdrun -np N PROGRAM` for ranks on this machine, or unset "
               "{0}",
               name, size, placement.size);
}

Status check_starter(const SiteConfig& site, const Placement& placement) {
  if (!placement.srun || site.scheduler.launcher == "srun") return Status::ok();
  return error(Code::kInvalidArgument,
               "site {} starts the tasks of a job with {}: type `{} hvdrun PROGRAM`, and hvdrun "
               "becomes each rank (--site generic takes srun)",
               site.id, site.scheduler.launcher, site.scheduler.launcher);
}

}  // namespace hvd
