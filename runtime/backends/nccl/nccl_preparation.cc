// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_preparation.h"

#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "backends/nccl/nccl_facts.h"
#include "backends/nccl/told_by_all.h"
#include "base/log.h"

namespace hvd {
namespace {

/// NCCL connects thousands of GPUs in less; the other ranks have come already.
constexpr std::chrono::seconds kConnectTime{180};

Status fill_in(NcclFacts& facts, NcclSession& session, Device device) {
  HVD_TRY(session.open(device));
  if (const auto kernel = session.gpu().kernel("hvd_copy"); !kernel.is_ok()) {
    return Status(Code::kUnsupported, kernel.status().message());
  }
  const GpuFacts& gpu = session.gpu().facts();
  facts.version = session.library().version();
  facts.uuid = gpu.uuid;
  put_text(facts.bus_id, gpu.bus_id);
  put_text(facts.gpu, gpu.name);
  facts.reduces_float8 = nccl_reduces_float8(facts.version, gpu.architecture) ? 1 : 0;
  HVD_TRY_ASSIGN(facts.visible_gpus, session.context().gpu.gpus->count());
  facts.shares_gpu = session.settings().shares_gpu ? 1 : 0;
  facts.registers = session.settings().registers ? 1 : 0;
  facts.is_confined = is_confined_to(facts.visible_gpus, "/dev") ? 1 : 0;
  if (const auto peers = session.gpu().peers(); peers.is_ok()) {
    for (const GpuPeer& peer : peers.value()) facts.add_peer(peer.uuid, peer.is_in_reach);
  } else {
    log(LogLevel::kDebug, "nccl", "{}", peers.status().message());  // only a notice depends on it
  }
  const std::string& host_id = session.settings().host_id;
  if (!host_id.empty()) facts.host_id = std::hash<std::string>()(host_id);
  if (session.context().communicator.rank != 0) return Status::ok();
  ncclUniqueId id;
  static_assert(sizeof id == sizeof facts.unique_id);
  const NcclCalls& calls = session.library().calls();
  const ncclResult_t result = calls.get_unique_id(&id);
  if (result != ncclSuccess) {
    const char* const last = calls.get_last_error(nullptr);  // of no communicator: as of all
    return error(Code::kSystem, "{} gives no unique id: {} ({})", kNcclTitle,
                 calls.get_error_string(result), last == nullptr ? "" : last);
  }
  std::memcpy(facts.unique_id.data(), &id, sizeof id);
  return Status::ok();
}

class Preparation : public Task {
 public:
  Preparation(NcclSession& session, std::unique_ptr<ToldByAll> facts)
      : session_(session), facts_(std::move(facts)) {}

  Progress advance() override { return facts_ != nullptr ? agree() : connect(); }
  const Status& status() const override { return status_; }
  bool needs_polling() const override { return facts_ == nullptr || facts_->needs_polling(); }

 private:
  Progress fail(Status status) {
    status_ = std::move(status);
    return Progress::kFailed;
  }

  /// A rank that fails leaves the others' connections refused: theirs must not be told first.
  Progress doubt(const Status& failure) {
    if (failure.code() != Code::kSystem) return fail(failure);
    status_ = session_.in_doubt(failure);
    doubted_until_ = Deadline::after(kDoubtTime);
    return Progress::kBlocked;
  }

  Progress agree() {
    const Progress progress = facts_->advance();
    if (progress == Progress::kFailed) return fail(facts_->status());
    if (progress != Progress::kDone) return progress;
    std::vector<NcclFacts> all(facts_->all().size() / sizeof(NcclFacts));
    std::memcpy(all.data(), facts_->all().data(), facts_->all().size());
    facts_.reset();
    const Communicator& communicator = session_.context().communicator;
    const NcclAgreement agreement = agree_on_nccl(all, communicator);
    if (!agreement.status.is_ok()) return fail(agreement.status);
    for (const std::string& notice : agreement.notices) {
      if (communicator.rank == 0) log(LogLevel::kWarning, "nccl", "{}", notice);
    }
    session_.set_reduces_float8(agreement.reduces_float8);
    ncclUniqueId id;
    std::memcpy(&id, all.front().unique_id.data(), sizeof id);
    if (Status status = session_.begin(id); !status.is_ok()) return fail(std::move(status));
    deadline_ = Deadline::after(kConnectTime);
    return Progress::kMoved;
  }

  Progress connect() {
    if (!status_.is_ok())
      return doubted_until_.has_passed() ? Progress::kFailed : Progress::kBlocked;
    const CurrentGpu current(session_.gpu());
    const auto settled = session_.communicator().is_settled();
    if (!settled.is_ok()) return doubt(settled.status());
    if (settled.value()) return Progress::kDone;
    if (!deadline_.has_passed()) return Progress::kBlocked;
    return fail(error(Code::kTimeout,
                      "{} has not connected {} ranks within {} s; NCCL_DEBUG=INFO says where it is",
                      kNcclTitle, session_.context().communicator.size, kConnectTime.count()));
  }

  NcclSession& session_;
  std::unique_ptr<ToldByAll> facts_;  // null once all have told
  Deadline deadline_ = kForever;
  Deadline doubted_until_ = kForever;
  Status status_;
};

}  // namespace

Result<std::unique_ptr<Task>> prepare_nccl(NcclSession& session, Device device) {
  NcclFacts facts;
  const Status status = fill_in(facts, session, device);
  if (!status.is_ok()) {
    put_text(facts.problem, status.message());
    facts.is_failed = status.code() == Code::kUnsupported ? 0 : 1;
  }
  HVD_TRY_ASSIGN(auto told,
                 ToldByAll::start(session.context(), std::as_bytes(std::span(&facts, 1))));
  return std::unique_ptr<Task>(std::make_unique<Preparation>(session, std::move(told)));
}

}  // namespace hvd
