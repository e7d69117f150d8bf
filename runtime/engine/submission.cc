// SPDX-License-Identifier: Apache-2.0
#include "engine/submission.h"

namespace hvd {
namespace {

Status check_tensor(const Request& request, std::size_t index, const Communicator& world) {
  const Tensor& tensor = request.tensors[index];
  bool empty = false;
  for (const auto dimension : tensor.shape) {
    if (dimension < 0) {
      return error(Code::kInvalidArgument,
                   "rank {}: tensor '{}' (number {}): negative dimension {}", world.rank,
                   request.name, index, dimension);
    }
    empty = empty || dimension == 0;
  }
  if (static_cast<int>(tensor.dtype) >= kDataTypeCount) {
    return error(Code::kInvalidArgument, "rank {}: tensor '{}' (number {}): unknown type {}",
                 world.rank, request.name, index, static_cast<int>(tensor.dtype));
  }
  if (empty) return Status::ok();
  const bool gather = std::holds_alternative<Allgather>(request.operation);
  if (tensor.input == nullptr || (!gather && tensor.output == nullptr)) {
    return error(Code::kInvalidArgument,
                 "rank {}: tensor '{}' (number {}): no memory (null pointer)", world.rank,
                 request.name, index);
  }
  return Status::ok();
}

}  // namespace

Status check_request(const Request& request, const Communicator& world) {
  const bool barrier = std::holds_alternative<Barrier>(request.operation);
  if (request.process_set != world.process_set) {
    return error(Code::kInvalidArgument,
                 "rank {}: there is no process set {}; use {} for all ranks", world.rank,
                 request.process_set, world.process_set);
  }
  if (request.tensors.empty() != barrier) {
    return error(Code::kInvalidArgument, "rank {}: {} '{}' with {} tensors; {}", world.rank,
                 kind_name(request.operation), request.name, request.tensors.size(),
                 barrier ? "a barrier takes none" : "pass at least one");
  }
  if (const auto* broadcast = std::get_if<Broadcast>(&request.operation)) {
    if (broadcast->root < 0 || broadcast->root >= world.size) {
      return error(Code::kInvalidArgument,
                   "rank {}: broadcast '{}': root {} is not a rank (0 to {})", world.rank,
                   request.name, broadcast->root, world.size - 1);
    }
  }
  if (const auto* allreduce = std::get_if<Allreduce>(&request.operation)) {
    if (allreduce->op == ReduceOp::kAdasum) {
      return error(Code::kUnsupported,
                   "rank {}: allreduce '{}': Adasum is not part of this version; use average",
                   world.rank, request.name);
    }
  }
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    HVD_TRY(check_tensor(request, i, world));
  }
  return Status::ok();
}

void Submission::push(const PendingPtr& pending) {
  Lock lock(mutex_);
  Request& request = pending->request;
  if (request.name.empty()) {
    pending->cacheable = false;
    request.name = format_text("{}.noname.{}", kind_name(request.operation),
                               unnamed_[request.operation.index()]++);
  }
  queue_.push_back(pending);
  count_.store(queue_.size());
}

bool Submission::drain(std::vector<PendingPtr>& taken) {
  if (is_empty()) return false;
  Lock lock(mutex_);
  if (taken.empty()) {
    taken.swap(queue_);
  } else {
    for (PendingPtr& pending : queue_) taken.push_back(std::move(pending));
    queue_.clear();
  }
  count_.store(0);
  return true;
}

}  // namespace hvd
