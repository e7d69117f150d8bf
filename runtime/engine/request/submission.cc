// SPDX-License-Identifier: Apache-2.0
#include "engine/request/submission.h"

#include <algorithm>
#include <charconv>

namespace hvd {
namespace {

/// Between kind and number in the names of requests that come without one.
constexpr std::string_view kUnnamed = ".noname.";

/// A tensor as errors name it.
std::string where(const Request& request, std::size_t index, const Communicator& world) {
  return format_text("rank {}: tensor '{}' (number {})", world.world_rank(), request.name, index);
}

std::int64_t rows_of(const Tensor& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape.front();
}

/// True for memory that this rank must give: that of the input, that of the output of a tensor.
struct NeedsMemory {
  bool input;
  bool output;
};
NeedsMemory needs_memory(const Operation& operation, const Communicator& world) {
  const bool is_root = root_of(operation) == world.rank;
  if (std::holds_alternative<Scatter>(operation)) return {is_root, false};
  if (std::holds_alternative<Reduce>(operation)) return {true, is_root};
  const bool makes_output =
      has_free_rows(operation) || std::holds_alternative<Reducescatter>(operation);
  return {true, !makes_output};
}

Status check_splits(const Request& request, std::size_t index, const Communicator& world) {
  const Tensor& tensor = request.tensors[index];
  const std::int64_t rows = rows_of(tensor);
  if (tensor.splits.empty()) {
    if (std::holds_alternative<Scatter>(request.operation) || rows % world.size == 0) {
      return Status::ok();
    }
    return error(Code::kInvalidArgument,
                 "{}: alltoall of {} rows among {} ranks without splits; pass splits, or a "
                 "multiple of the ranks",
                 where(request, index, world), rows, world.size);
  }
  if (tensor.splits.size() != static_cast<std::size_t>(world.size)) {
    return error(Code::kInvalidArgument,
                 "{}: {} splits; pass one for each of the {} ranks of the process set",
                 where(request, index, world), tensor.splits.size(), world.size);
  }
  std::int64_t left = rows;
  for (const std::int64_t split : tensor.splits) {
    if (split < 0 || split > left) {
      return error(Code::kInvalidArgument,
                   "{}: the splits hold {} where {} of {} rows are left; pass counts of rows, from "
                   "0, that add up to at most the first dimension",
                   where(request, index, world), split, left, rows);
    }
    left -= split;
  }
  return Status::ok();
}

/// Memory for rows whose number is not known yet: it cannot be that of the input.
Status check_given_output(const Request& request, std::size_t index, const Communicator& world) {
  const Tensor& tensor = request.tensors[index];
  if (tensor.output_bytes == 0) return Status::ok();
  if (!has_free_rows(request.operation)) {
    return error(Code::kInvalidArgument, "{}: {} takes no output_bytes; leave them 0",
                 where(request, index, world), kind_name(request.operation));
  }
  if (tensor.output == nullptr) {
    return error(Code::kInvalidArgument,
                 "{}: output is null and output_bytes is {}; pass memory, or 0",
                 where(request, index, world), tensor.output_bytes);
  }
  std::size_t bytes = size_of(tensor.dtype);
  for (const auto extent : tensor.shape) bytes *= static_cast<std::size_t>(extent);
  const auto input = reinterpret_cast<std::uintptr_t>(tensor.input);
  const auto output = reinterpret_cast<std::uintptr_t>(tensor.output);
  if (input != 0 && input < output + tensor.output_bytes && output < input + bytes) {
    return error(Code::kInvalidArgument,
                 "{}: output overlaps input; pass other memory, or output_bytes 0",
                 where(request, index, world));
  }
  return Status::ok();
}

/// GPUs fault where an element lies across its boundary, which ends their use by this process. A
/// complex number is two floats.
std::size_t alignment_on_gpu(DataType dtype) {
  const bool is_complex = dtype == DataType::kComplex64 || dtype == DataType::kComplex128;
  return is_complex ? size_of(dtype) / 2 : size_of(dtype);
}

Status check_addresses(const Request& request, std::size_t index, const Communicator& world,
                       bool empty) {
  const Tensor& tensor = request.tensors[index];
  const NeedsMemory needs = needs_memory(request.operation, world);
  const bool fills_output =
      needs.output || std::holds_alternative<Reducescatter>(request.operation);
  // Where its length is given, the rows of others come to it.
  const bool has_output = (!empty && fills_output) || tensor.output_bytes > 0;
  const std::size_t alignment = alignment_on_gpu(tensor.dtype);
  for (const bool is_input : {true, false}) {
    const void* const memory = is_input ? tensor.input : tensor.output;
    if (!(is_input ? needs.input && !empty : has_output)) continue;
    if (reinterpret_cast<std::uintptr_t>(memory) % alignment == 0) continue;
    return error(Code::kInvalidArgument,
                 "{}: the {} is at {}; a GPU reaches {} ({} bytes) only at multiples of {}: copy "
                 "the tensor into memory of its own (PyTorch: clone())",
                 where(request, index, world), is_input ? "input" : "output", memory,
                 name_of(tensor.dtype), size_of(tensor.dtype), alignment);
  }
  return Status::ok();
}

Status check_tensor(const Request& request, std::size_t index, const Communicator& world) {
  const Tensor& tensor = request.tensors[index];
  bool empty = false;
  for (const auto dimension : tensor.shape) {
    if (dimension < 0) {
      return error(Code::kInvalidArgument, "{}: negative dimension {}",
                   where(request, index, world), dimension);
    }
    empty = empty || dimension == 0;
  }
  if (static_cast<int>(tensor.dtype) >= kDataTypeCount) {
    return error(Code::kInvalidArgument, "{}: unknown type {}", where(request, index, world),
                 static_cast<int>(tensor.dtype));
  }
  if (!tensor.splits.empty() && !has_splits(request.operation)) {
    return error(Code::kInvalidArgument, "{}: {} takes no splits; leave them out",
                 where(request, index, world), kind_name(request.operation));
  }
  if (std::holds_alternative<Alltoall>(request.operation) ||
      (std::holds_alternative<Scatter>(request.operation) &&
       root_of(request.operation) == world.rank)) {
    HVD_TRY(check_splits(request, index, world));
  }
  HVD_TRY(check_given_output(request, index, world));
  const NeedsMemory needs = needs_memory(request.operation, world);
  if (!empty &&
      ((needs.input && tensor.input == nullptr) || (needs.output && tensor.output == nullptr))) {
    return error(Code::kInvalidArgument, "{}: no memory (null pointer)",
                 where(request, index, world));
  }
  if (request.device.kind == DeviceKind::kCpu) return Status::ok();
  return check_addresses(request, index, world, empty);
}

}  // namespace

Status check_request(const Request& request, const Communicator& world) {
  if (request.process_set != world.process_set) {
    return error(Code::kInvalidArgument,
                 "rank {}: there is no process set {}; use {} for all ranks", world.world_rank(),
                 request.process_set, world.process_set);
  }
  if (request.tensors.empty() == has_tensors(request.operation)) {
    return error(Code::kInvalidArgument, "rank {}: {} '{}' with {} tensors; {}", world.world_rank(),
                 kind_name(request.operation), request.name, request.tensors.size(),
                 has_tensors(request.operation) ? "pass at least one" : "it takes none");
  }
  if (const auto root = root_of(request.operation); root && (*root < 0 || *root >= world.size)) {
    return error(Code::kInvalidArgument, "rank {}: {} '{}': root {} is not a rank (0 to {})",
                 world.world_rank(), kind_name(request.operation), request.name, *root,
                 world.size - 1);
  }
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    HVD_TRY(check_tensor(request, i, world));
  }
  return Status::ok();
}

void complete_splits(Request& request, const Communicator& world) {
  if (!has_splits(request.operation)) return;
  const auto size = static_cast<std::size_t>(world.size);
  const auto root = root_of(request.operation);
  for (Tensor& tensor : request.tensors) {
    if (root && *root != world.rank) {
      tensor.splits.assign(size, 0);
      continue;
    }
    if (!tensor.splits.empty()) continue;
    const auto rows = static_cast<std::size_t>(rows_of(tensor));
    for (std::size_t rank = 0; rank < size; ++rank) {
      tensor.splits.push_back(static_cast<std::int64_t>(first_row_of(rows, size, rank + 1) -
                                                        first_row_of(rows, size, rank)));
    }
  }
}

void Submission::push(const PendingPtr& pending) {
  Lock lock(mutex_);
  Request& request = pending->request;
  if (request.name.empty()) {
    pending->call = ++unnamed_[request.process_set][request.operation.index()];
    request.name = format_text("{}{}{}", kind_name(request.operation), kUnnamed,
                               (pending->call - 1) % kPlaces);
  }
  if (timeline_.is_on()) {
    pending->trace =
        timeline_.submitted(kind_name(request.operation), request.name, request.process_set,
                            pending->description.bytes(), pending->cacheable && pending->call == 0);
  }
  queue_.push_back(pending);
  count_.store(queue_.size());
}

void Submission::pass_over(int process_set, std::string_view name) {
  const auto kind_end = name.find(kUnnamed);
  if (kind_end == std::string_view::npos) return;
  std::uint64_t number = 0;
  const std::string_view digits = name.substr(kind_end + kUnnamed.size());
  if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc()) {
    return;
  }
  Lock lock(mutex_);
  for (std::size_t kind = 0; kind < kKindNames.size(); ++kind) {
    if (kKindNames[kind] != name.substr(0, kind_end)) continue;
    std::uint64_t& calls = unnamed_[process_set][kind];
    // The call nearest to our count that has this place: others may pass it in another order.
    const std::uint64_t ahead = (number % kPlaces + kPlaces - calls % kPlaces) % kPlaces;
    if (ahead < kPlaces / 2) calls += ahead + 1;
  }
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
