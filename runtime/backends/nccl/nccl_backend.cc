// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_backend.h"

#include <unistd.h>

#include <utility>

#include "backends/nccl/nccl_plan.h"
#include "backends/nccl/nccl_preparation.h"
#include "backends/nccl/nccl_session.h"
#include "backends/nccl/nccl_task.h"

namespace hvd {
namespace {

class NcclBackend : public Backend {
 public:
  explicit NcclBackend(const BackendContext& context) : session_(context) {}

  std::string_view name() const override { return kNcclBackend.name; }

  Status supports(const Operation& operation, DataType dtype, Device device) const override {
    if (device.kind != gpu_kind_of_build()) {
      return error(Code::kUnsupported, "nccl reaches the memory of {} GPUs only", kNcclTitle);
    }
    HVD_TRY(check_nccl_operation(operation, dtype));
    // Until the ranks have told each other, a batch may come: it makes them do so.
    if (is_float8(dtype) && reduction_of(operation) && !session_.reduces_float8().value_or(true)) {
      return error(Code::kUnsupported, "{}, which some rank lacks", kNcclFloat8Note);
    }
    return Status::ok();
  }

  std::string reach() const override {
    const int size = session_.context().communicator.size;
    if (!session_.is_open()) {
      return format_text("{} between the GPUs of {} ranks, from their first tensor on", kNcclTitle,
                         size);
    }
    return format_text("{} between the GPUs of {} ranks, this one's a {}",
                       session_.library().describe(), size, session_.gpu().facts().name);
  }

  Result<std::unique_ptr<Task>> prepare(const Batch& first) override {
    return prepare_nccl(session_, first.device);
  }

  Result<std::unique_ptr<Task>> start(Batch batch) override {
    if (session_.is_given_up()) return NcclSession::given_up();
    const Device own = session_.gpu().device();
    if (!batch.gpu.is_neutral && batch.device != own) {
      return error(Code::kInvalidArgument,
                   "rank {}: a tensor on GPU {}, but this process set works on GPU {} of this "
                   "rank: one GPU per rank; select it before the first tensor is made",
                   session_.context().communicator.world_rank(), batch.device.index, own.index);
    }
    return start_nccl_task(session_, std::move(batch));
  }

  /// The same bits on all ranks; which order NCCL sums in depends on its algorithm.
  bool reproducible() const override { return false; }
  void begin_settling() override { session_.begin_abort(); }
  bool settle(const std::function<bool(int rank)>& /*is_gone*/, Deadline deadline) override {
    return session_.is_aborted_by(deadline);
  }

 private:
  NcclSession session_;
};

Result<std::unique_ptr<Backend>> create_nccl(const BackendContext& context) {
  if (context.gpu.gpus == nullptr || !context.gpu.start_on_host) {
    return error(Code::kUnsupported, "nccl serves GPU memory, of which this process has none");
  }
  if (context.memory.size() < LaunchBoard::bytes(context.communicator.local_size())) {
    return error(Code::kInternal, "rank {}: nccl has too little shared memory",
                 context.communicator.rank);
  }
  return std::unique_ptr<Backend>(std::make_unique<NcclBackend>(context));
}

}  // namespace

const BackendEntry kNcclBackend = {
    .name = "nccl", .memory_bytes = &LaunchBoard::bytes, .create = &create_nccl, .on_gpu = true};

NcclBuild describe_nccl_build(const std::string& wanted) {
  const NcclSource source = NcclSource::choose(loaded_nccl_path(), wanted);
  std::string_view unless;
  if (!source.is_loaded && wanted.empty()) unless = ", if it does";
  if (source.path.find('/') != std::string::npos && ::access(source.path.c_str(), R_OK) != 0) {
    unless = ", but it is not there";
  }
  return {true,
          format_text("{} is loaded at the first tensor in GPU memory: {} ({}{})", kNcclTitle,
                      source.path, source.reason, unless),
          nccl_version_here()};
}

}  // namespace hvd
