// SPDX-License-Identifier: Apache-2.0
#include "engine/request/request_check.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

namespace hvd {
namespace {

/// A tensor as errors name it.
std::string where(const Request& request, std::size_t index, const Communicator& world) {
  std::string text = format_text("rank {}: {} '{}'", world.world_rank(),
                                 kind_name(request.operation), request.name);
  if (request.tensors.size() > 1) text += format_text(" [{}]", index);
  return text;
}

std::int64_t rows_of(const Tensor& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape.front();
}

/// Whether this rank must give the memory.
bool must_give(Memory memory, const Request& request, const Communicator& world) {
  return memory == Memory::kEveryRank ||
         (memory == Memory::kRoot && root_of(request.operation) == world.rank);
}

Status check_splits(const Request& request, std::size_t index, const Communicator& world) {
  const Tensor& tensor = request.tensors[index];
  const std::int64_t rows = rows_of(tensor);
  if (tensor.splits.empty()) {
    if (root_of(request.operation) || rows % world.size == 0) return Status::ok();
    return error(Code::kInvalidArgument,
                 "{}: {} rows among {} ranks without splits; pass splits, or a multiple of the "
                 "ranks",
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
  if (!kind_of(request.operation).has_free_rows) {
    return error(Code::kInvalidArgument, "{}: it takes no output_bytes; leave them 0",
                 where(request, index, world));
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
                       bool is_empty) {
  const Tensor& tensor = request.tensors[index];
  const Kind& kind = kind_of(request.operation);
  const bool may_fill = kind.output == Memory::kLibrary && !kind.has_free_rows;
  const bool fills = may_fill || must_give(kind.output, request, world);
  const bool has_input = !is_empty && must_give(kind.input, request, world);
  // Where its length is given, the rows of others come to it.
  const bool has_output = (!is_empty && fills) || tensor.output_bytes > 0;
  const std::size_t alignment = alignment_on_gpu(tensor.dtype);
  for (const bool is_input : {true, false}) {
    const void* const memory = is_input ? tensor.input : tensor.output;
    if (!(is_input ? has_input : has_output)) continue;
    if (reinterpret_cast<std::uintptr_t>(memory) % alignment == 0) continue;
    return error(Code::kInvalidArgument,
                 "{}: the {} is at {}; a GPU reaches {} ({} bytes) only at multiples of {}: copy "
                 "the tensor into memory of its own (PyTorch: clone())",
                 where(request, index, world), is_input ? "input" : "output", memory,
                 name_of(tensor.dtype), size_of(tensor.dtype), alignment);
  }
  return Status::ok();
}

Status check_memory(const Request& request, std::size_t index, const Communicator& world) {
  const Tensor& tensor = request.tensors[index];
  HVD_TRY(check_given_output(request, index, world));
  const bool is_empty =
      std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  const Kind& kind = kind_of(request.operation);
  const bool lacks_input = tensor.input == nullptr && must_give(kind.input, request, world);
  const bool lacks_output = tensor.output == nullptr && must_give(kind.output, request, world);
  if (!is_empty && (lacks_input || lacks_output)) {
    return error(Code::kInvalidArgument,
                 "{}: {} is null and the tensor is not empty; pass the memory of its elements",
                 where(request, index, world), lacks_input ? "input" : "output");
  }
  if (request.device.kind == DeviceKind::kCpu) return Status::ok();
  return check_addresses(request, index, world, is_empty);
}

Status check_tensor(const Request& request, std::size_t index, const Communicator& world) {
  const Tensor& tensor = request.tensors[index];
  if (const Status status = check_shape(tensor); !status.is_ok()) {
    return status.with_context(where(request, index, world));
  }
  const Kind& kind = kind_of(request.operation);
  if (!tensor.splits.empty() && !kind.has_splits) {
    return error(Code::kInvalidArgument, "{}: it takes no splits; leave them out",
                 where(request, index, world));
  }
  if (kind.has_splits && must_give(kind.input, request, world)) {
    HVD_TRY(check_splits(request, index, world));
  }
  return check_memory(request, index, world);
}

}  // namespace

Status check_request(const Request& request, const Communicator& world) {
  if (const Kind& kind = kind_of(request.operation); request.tensors.empty() == kind.has_tensors) {
    return error(Code::kInvalidArgument, "rank {}: {} '{}' with {} tensors; {}", world.world_rank(),
                 kind.name, request.name, request.tensors.size(),
                 kind.has_tensors ? "pass at least one" : "it takes none");
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

Status check_shape(const Tensor& tensor) {
  // Bytes must fit into a signed 64-bit number, also when some extent is zero.
  auto most =
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / size_of(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) {
    if (extent < 0) {
      return error(Code::kInvalidArgument, "a dimension is {}; pass 0 or more", extent);
    }
    if (extent > 0) most /= static_cast<std::uint64_t>(extent);
  }
  if (most > 0) return Status::ok();
  return error(Code::kInvalidArgument, "the shape has more than 2^63 bytes; pass fewer elements");
}

void complete_splits(Request& request, const Communicator& world) {
  if (!kind_of(request.operation).has_splits) return;
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

}  // namespace hvd
