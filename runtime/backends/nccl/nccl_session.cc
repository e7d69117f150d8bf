// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_session.h"

#include <utility>

#include "backends/nccl/nccl_ras.h"
#include "base/log.h"

namespace hvd {
namespace {

/// Of a process that ends with something under way.
constexpr std::chrono::seconds kGiveUpTime{2};

}  // namespace

Result<NcclSettings> NcclSettings::from(const Environment& environment) {
  NcclSettings settings;
  HVD_TRY_ASSIGN(const auto shares, environment.get_int("HVD_SHARE_GPU", 0, 1));
  HVD_TRY_ASSIGN(const auto registers, environment.get_int("HVD_NCCL_REGISTER", 0, 1));
  HVD_TRY_ASSIGN(const auto graphs, environment.get_int("HVD_GPU_GRAPHS", 0, 1));
  settings.shares_gpu = shares.value_or(0) != 0;
  settings.registers = registers.value_or(1) != 0;
  settings.uses_graphs = graphs.value_or(0) != 0;
  settings.ras = ras_address(environment);
  settings.wants_order = environment.get("NCCL_LAUNCH_ORDER_IMPLICIT").value_or("0") != "0";
  settings.host_id = environment.get("NCCL_HOSTID").value_or("");
  return settings;
}

NcclSession::~NcclSession() {
  bell_->close();
  if (is_given_up_) static_cast<void>(abort(Deadline::after(kGiveUpTime)));
  if (is_hung_) {
    // The device may never come back: whatever waits for it, or lies in its memory, is leaked.
    if (bucket_ != nullptr) bucket_->abandon();
    if (spare_ != nullptr) spare_->abandon();
    if (graphs_ != nullptr) graphs_->abandon();
    static_cast<void>(watcher_.release());
    return;
  }
  if (gpu_ == nullptr) return;
  const CurrentGpu current(*gpu_);
  watcher_.reset();
  graphs_.reset();
  bucket_.reset();
  spare_.reset();
  communicator_.reset();
  if (stream_ != nullptr) gpu_->destroy_stream(stream_);
}

Status NcclSession::open(const Environment& environment, Device device) {
  if (context_.gpus == nullptr) {
    return error(Code::kUnsupported, "this process serves no GPU");
  }
  HVD_TRY_ASSIGN(gpu_, context_.gpus->open(device));
  HVD_TRY_ASSIGN(library_, NcclLibrary::open(environment));
  log(LogLevel::kInfo, "nccl", "{}", library_->describe());
  return Status::ok();
}

Status NcclSession::begin(const ncclUniqueId& id) {
  const CurrentGpu current(*gpu_);
  HVD_TRY(current.status());
  HVD_TRY_ASSIGN(stream_, gpu_->create_stream());
  watcher_ = std::make_unique<EventWatcher>();
  communicator_ = std::make_unique<NcclCommunicator>(*library_, *gpu_);
  bucket_ = std::make_unique<NcclBucket>(*communicator_, settings_.registers);
  spare_ = std::make_unique<NcclBucket>(*communicator_, false);
  if (settings_.uses_graphs) graphs_ = std::make_unique<NcclGraphs>(*gpu_, stream_);
  return communicator_->begin(id, context_.communicator.rank, context_.communicator.size);
}

std::shared_ptr<NcclSession::Arrival> NcclSession::watch(GpuEventPtr event) {
  auto arrival = std::make_shared<Arrival>();
  watcher_->watch(std::move(event), [arrival, bell = bell_](const Status& status) {
    arrival->status = status;
    arrival->is_here.store(true);
    bell->ring();
  });
  return arrival;
}

void NcclSession::report(const StalledBatch& batch) const {
  const Communicator& communicator = context_.communicator;
  if (!should_report(batch, board_, communicator.local_rank)) return;
  report_stall(describe(batch), settings_.ras);
}

bool NcclSession::abort(Deadline deadline) {
  give_up();
  if (communicator_ == nullptr || is_hung_) return !is_hung_;
  is_hung_ = !communicator_->abort(deadline);
  return !is_hung_;
}

}  // namespace hvd
