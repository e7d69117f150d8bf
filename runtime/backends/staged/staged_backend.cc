// SPDX-License-Identifier: Apache-2.0
#include "backends/staged/staged_backend.h"

#include <utility>

#include "backends/node/node_backend.h"
#include "backends/staged/staged_task.h"

namespace hvd {
namespace {

/// True where each element of the result is made of the elements at the same place.
bool is_elementwise(const Operation& operation) {
  const auto* allreduce = std::get_if<Allreduce>(&operation);
  if (allreduce != nullptr) return allreduce->op != ReduceOp::kAdasum;
  return std::holds_alternative<Reduce>(operation) || std::holds_alternative<Broadcast>(operation);
}

class StagedBackend final : public Backend {
 public:
  explicit StagedBackend(const BackendContext& context)
      : communicator_(context.communicator),
        doorbell_(context.doorbell),
        gpus_(*context.gpu.gpus),
        start_on_host_(context.gpu.start_on_host) {}

  std::string_view name() const override { return kStagedBackend.name; }

  Status supports(const Operation& operation, DataType dtype, Device device) const override {
    if (device.kind == DeviceKind::kCpu) {
      return error(Code::kUnsupported, "staged serves the memory of GPUs only");
    }
    return check_node_operation(kStagedBackend.name, operation, dtype);
  }

  std::string reach() const override {
    return "tensors go to the host and back, by the backend of CPU memory in between";
  }

  Result<std::unique_ptr<Task>> start(Batch batch) override {
    batch.gpu.turn.drop();  // our streams hold copies, which wait for no rank
    if (batch.gpu.is_neutral) {
      return start_pieces(nullptr, communicator_, start_on_host_, std::move(batch));
    }
    if (staging_ == nullptr) {
      HVD_TRY_ASSIGN(Gpu* const gpu, gpus_.open(batch.device));
      HVD_TRY_ASSIGN(staging_, Staging::open(*gpu, doorbell_));
    }
    if (is_elementwise(batch.operation)) {
      return start_pieces(staging_.get(), communicator_, start_on_host_, std::move(batch));
    }
    return start_whole(*staging_, communicator_, start_on_host_, std::move(batch));
  }

  /// As the backend of CPU memory, which says it for itself.
  bool reproducible() const override { return true; }

  bool settle(const std::function<bool(int rank)>& /*is_gone*/, Deadline deadline) override {
    return staging_ == nullptr || staging_->settle(deadline);
  }

 private:
  const Communicator& communicator_;
  const Doorbell* doorbell_;
  Gpus& gpus_;
  StartOnHost start_on_host_;
  std::unique_ptr<Staging> staging_;  ///< Of this rank's GPU, from the first batch on.
};

Result<std::unique_ptr<Backend>> create_staged(const BackendContext& context) {
  if (context.gpu.gpus == nullptr || !context.gpu.start_on_host) {
    return error(Code::kUnsupported, "staged needs GPUs, which this engine was started without");
  }
  return std::unique_ptr<Backend>(std::make_unique<StagedBackend>(context));
}

std::size_t no_memory(int /*local_size*/) { return 0; }

}  // namespace

const BackendEntry kStagedBackend = {
    .name = "staged", .memory_bytes = &no_memory, .create = &create_staged, .on_gpu = true};

}  // namespace hvd
