// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_session.h"

#include <utility>

#include "base/log.h"

namespace hvd {
NcclSession::~NcclSession() {
  bell_->close();
  if (is_given_up_) begin_abort();
  if (is_aborted_by(abort_patience_)) return;
  const Communicator& communicator = context_.communicator;
  log(LogLevel::kWarning, "nccl",
      "rank {} on host {}: GPU {} has not come to an end within {} s; what process set {} has "
      "there is freed when it has",
      communicator.world_rank(), communicator.host(), gpu_->device().index, kDevicePatience.count(),
      communicator.process_set);
}

Status NcclSession::open(Device device) {
  if (context_.gpu.gpus == nullptr) {
    return error(Code::kUnsupported, "this process serves no GPU");
  }
  // It overrides what a communicator asks for, and calls would wait for other ranks under a lock.
  if (settings().blocks) {
    return error(
        Code::kInvalidArgument,
        "NCCL_COMM_BLOCKING is set, which makes each call of NCCL wait for all ranks: unset "
        "it, or set it to 0");
  }
  HVD_TRY_ASSIGN(gpu_, context_.gpu.gpus->open(device));
  HVD_TRY_ASSIGN(library_, NcclLibrary::open(settings().library));
  context_.gpu.gpus->note_library();
  log(LogLevel::kInfo, "nccl", "{}", library_->describe());
  return Status::ok();
}

/// From NCCL 2.29 on the ranks of a window connect across nodes (GIN), where InfiniBand has what
/// that needs, and a connection that fails is the end of the communicator.
NcclRegistration NcclSession::registration() const {
  if (!registers()) return NcclRegistration::kNone;
  const bool connects = library_->version() >= NcclLibrary::kConnectingWindows;
  return connects && context_.communicator.node_count() > 1 ? NcclRegistration::kEachRank
                                                            : NcclRegistration::kWindows;
}

Status NcclSession::begin(const ncclUniqueId& id) {
  const CurrentGpu current(*gpu_);
  HVD_TRY(current.status());
  HVD_TRY_ASSIGN(holdings_, NcclHoldings::open(*library_, *gpu_,
                                               {.registration = registration(),
                                                .uses_graphs = settings().uses_graphs}));
  return communicator().begin(id, context_.communicator.rank, context_.communicator.size);
}

Status NcclSession::in_doubt(const Status& failure) const {
  const Status device = gpu_->record(stream()).status();
  Status status = device.is_ok()
                      ? failure
                      : error(failure.code(), "{}; {}", failure.message(), device.message());
  const Communicator& communicator = context_.communicator;
  log(LogLevel::kWarning, "nccl", "rank {} on host {}: {}", communicator.world_rank(),
      communicator.host(), status.message());
  return status;
}

std::shared_ptr<NcclSession::Arrival> NcclSession::watch(GpuEventPtr event) {
  auto arrival = std::make_shared<Arrival>();
  holdings_->watcher().watch(std::move(event), [arrival, bell = bell_](const Status& status) {
    arrival->status = status;
    arrival->is_here.store(true);
    bell->ring();
  });
  return arrival;
}

void NcclSession::report(const StalledBatch& batch) const {
  const Communicator& communicator = context_.communicator;
  if (!should_report(batch, board_, communicator.local_rank)) return;
  report_stall(describe(batch), settings().ras);
}

void NcclSession::begin_abort() {
  give_up();
  if (holdings_ == nullptr || abort_) return;
  abort_patience_ = Deadline::after(kDevicePatience);
  abort_.emplace([holdings = holdings_] { holdings->abort(); });
}

}  // namespace hvd
