// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/direct_operation.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/copy_bytes.h"
#include "collective/reduce.h"
#include "collective/wire_cast.h"
#include "engine/plane/direct_rounds.h"

namespace hvd {
namespace {

/// Bytes of all ranks together that one rank reads at most: beyond that they are better shared out.
constexpr std::size_t kMostBytes = std::size_t{64} << 10;

std::size_t count_of(const Tensor& tensor) {
  std::size_t count = 1;
  for (const auto extent : tensor.shape) count *= static_cast<std::size_t>(extent);
  return count;
}

const void* beyond(const void* place, std::size_t bytes) {
  return static_cast<const std::byte*>(place) + bytes;
}

void bring(const Allreduce& allreduce, const Request& request, std::byte* place) {
  for (const Tensor& tensor : request.tensors) {
    const WireCast cast = WireCast::of(allreduce, tensor.dtype);
    const std::size_t count = count_of(tensor);
    if (cast.is_cast()) {
      cast.narrow(place, tensor.input, count);
    } else if (count > 0) {
      copy_bytes(place, tensor.input, count * size_of(tensor.dtype));
    }
    place += count * size_of(cast.wire);
  }
}

void take(const Allreduce& allreduce, const Request& request, const Communicator& communicator,
          std::span<const void* const> places) {
  const DataType dtype = request.tensors.front().dtype;
  const WireCast cast = WireCast::of(allreduce, dtype);
  const auto reduction = Reduction::of(allreduce, dtype, communicator.size);
  std::vector<const void*> sources(places.begin(), places.end());
  for (const Tensor& tensor : request.tensors) {
    const std::size_t count = count_of(tensor);
    if (count == 0) continue;
    if (cast.is_cast()) {
      std::array<std::byte, DirectRounds::kRoom> wire;
      reduce_into(reduction, ReduceStage::kWhole, wire.data(), sources, count);
      cast.widen(tensor.output, wire.data(), count);
    } else {
      reduce_into(reduction, ReduceStage::kWhole, tensor.output, sources, count);
    }
    for (const void*& source : sources) source = beyond(source, count * reduction.element_bytes());
  }
}

void bring(const Broadcast& broadcast, const Request& request, const Communicator& communicator,
           std::byte* place) {
  if (broadcast.root != communicator.rank) return;
  for (const Tensor& tensor : request.tensors) {
    const std::size_t bytes = count_of(tensor) * size_of(tensor.dtype);
    if (bytes > 0) copy_bytes(place, tensor.input, bytes);
    place += bytes;
  }
}

void take(const Broadcast& broadcast, const Request& request, const Communicator& communicator,
          std::span<const void* const> places) {
  const bool is_root = broadcast.root == communicator.rank;
  const void* source = places[static_cast<std::size_t>(broadcast.root)];
  for (const Tensor& tensor : request.tensors) {
    const std::size_t bytes = count_of(tensor) * size_of(tensor.dtype);
    if (bytes > 0 && !(is_root && tensor.output == tensor.input)) {
      copy_bytes(tensor.output, source, bytes);
    }
    source = beyond(source, bytes);
  }
}

}  // namespace

bool fits_direct(const PendingRequest& pending, const Communicator& communicator,
                 std::size_t room) {
  const Request& request = pending.request;
  if (request.device.kind != DeviceKind::kCpu) return false;
  const bool is_fit = is_one_of<Allreduce, Broadcast, Barrier>(request.operation);
  if (!is_fit) return false;
  if (const auto* allreduce = std::get_if<Allreduce>(&request.operation)) {
    if (allreduce->op == ReduceOp::kAdasum) return false;
  }
  if (request.tensors.empty()) return true;
  const auto size = static_cast<std::size_t>(communicator.size);
  return pending.description.has_single_dtype() &&
         pending.description.bytes() <= std::min(room, kMostBytes / size);
}

void bring_direct(const PendingRequest& pending, const Communicator& communicator,
                  std::byte* place) {
  const Request& request = pending.request;
  if (const auto* allreduce = std::get_if<Allreduce>(&request.operation)) {
    bring(*allreduce, request, place);
  } else if (const auto* broadcast = std::get_if<Broadcast>(&request.operation)) {
    bring(*broadcast, request, communicator, place);
  }
}

void take_direct(PendingRequest& pending, const Communicator& communicator,
                 std::span<const void* const> places) {
  const Request& request = pending.request;
  if (const auto* allreduce = std::get_if<Allreduce>(&request.operation)) {
    take(*allreduce, request, communicator, places);
  } else if (const auto* broadcast = std::get_if<Broadcast>(&request.operation)) {
    take(*broadcast, request, communicator, places);
  }
}

}  // namespace hvd
