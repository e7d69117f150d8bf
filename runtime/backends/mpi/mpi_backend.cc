// SPDX-License-Identifier: Apache-2.0
#include "backends/mpi/mpi_backend.h"

#include <utility>

#include "backends/lanes/lane_backend.h"
#include "backends/mpi/mpi_links.h"
#include "backends/node/node_plane.h"
#include "base/log.h"

namespace hvd {
namespace {

constexpr std::string_view kName = "mpi";

Result<std::unique_ptr<Backend>> create_mpi(const BackendContext& context, const MpiPlane& plane) {
  const Communicator& communicator = context.communicator;
  if (plane.session == nullptr) return Status(Code::kUnsupported, plane.reason);
  if (communicator.node_count() == 1) {
    return error(Code::kUnsupported, "mpi serves several nodes, and all ranks live on one");
  }
  if (context.lanes < 1) {
    return error(Code::kInternal, "rank {}: mpi has no lane to serve", communicator.rank);
  }
  std::unique_ptr<LaneLinks> links;
  if (communicator.local_rank < context.lanes) links = make_mpi_links(context, plane.session);
  return make_lane_backend(kName, context, std::move(links), plane.reason);
}

}  // namespace

Result<MpiPlane> open_mpi_plane(MpiProbe probe, const Wiring& wiring, Deadline deadline) {
  MpiPlan plan = plan_mpi(wiring.peers);
  MpiPlane plane{.session = nullptr, .reason = std::move(plan.reason)};
  if (!plan.use) {
    log(LogLevel::kInfo, "select", "mpi is not used: {}", plane.reason);
    return plane;
  }
  HVD_TRY_ASSIGN(plane.session,
                 MpiSession::open(std::move(probe.library), wiring.rank, wiring.size, deadline));
  return plane;
}

BackendEntry mpi_entry(const MpiPlane& plane) {
  return {.name = kName,
          .memory_bytes =
              [session = plane.session](int local_size) {
                return session == nullptr ? 0 : NodePlane::memory_bytes(local_size);
              },
          .create = [plane](const BackendContext& context) { return create_mpi(context, plane); }};
}

}  // namespace hvd
