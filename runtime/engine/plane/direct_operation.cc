// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/direct_operation.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "base/copy_bytes.h"
#include "collective/moving_counts.h"
#include "collective/reduce.h"
#include "collective/wire_cast.h"
#include "engine/plane/direct_rounds.h"
#include "engine/plane/fusion.h"

namespace hvd {
namespace {

/// Bytes of all ranks together that one rank reads at most, and that one node gets or sends:
/// beyond that they are better shared out.
constexpr std::size_t kMostBytes = std::size_t{64} << 10;

std::size_t count_of(const Tensor& tensor) {
  std::size_t count = 1;
  for (const auto extent : tensor.shape) count *= static_cast<std::size_t>(extent);
  return count;
}

const void* beyond(const void* place, std::size_t bytes) {
  return static_cast<const std::byte*>(place) + bytes;
}

/// The tensors of a request of one type.
Batch batch_of(const Request& request) {
  Batch batch;
  batch.operation = request.operation;
  batch.dtype = request.tensors.front().dtype;
  for (const Tensor& tensor : request.tensors) append_segment(batch, tensor);
  return batch;
}

// Each of these returns where it has ended.

std::byte* bring(const Allreduce& allreduce, const Request& request, std::byte* place) {
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
  return place;
}

/// Folds nodes first to last in the tree over nodes, whose left half has as many as the largest
/// power of two below their number; the result is where the first was.
void fold_tree(const Reduction& reduction, std::span<void* const> nodes, std::size_t count) {
  if (nodes.size() < 2) return;
  const std::size_t left = std::bit_floor(nodes.size() - 1);
  fold_tree(reduction, nodes.first(left), count);
  fold_tree(reduction, nodes.subspan(left), count);
  const std::array<const void*, 2> both{nodes[0], nodes[left]};
  reduce_into(reduction, ReduceStage::kCombine, nodes[0], both, count);
}

/// `sources`: of each rank. In the order of the backends: the ranks of a node, then the nodes.
void fold(const Reduction& reduction, const Communicator& communicator, void* destination,
          std::span<const void* const> sources, std::size_t count) {
  if (communicator.node_count() == 1) {
    return reduce_into(reduction, ReduceStage::kWhole, destination, sources, count);
  }
  std::vector<std::byte> partials(communicator.nodes.size() * count * reduction.partial_bytes());
  std::vector<void*> nodes;
  std::vector<const void*> of_node;
  for (const std::vector<int>& ranks : communicator.nodes) {
    of_node.clear();
    for (const int rank : ranks) of_node.push_back(sources[static_cast<std::size_t>(rank)]);
    nodes.push_back(partials.data() + nodes.size() * count * reduction.partial_bytes());
    reduce_into(reduction, ReduceStage::kPartial, nodes.back(), of_node, count);
  }
  fold_tree(reduction, nodes, count);
  const std::array<const void*, 1> total{nodes.front()};
  reduce_into(reduction, ReduceStage::kFinish, destination, total, count);
}

void take(const Allreduce& allreduce, const Request& request, const Communicator& communicator,
          std::span<const void* const> places) {
  const DataType dtype = request.tensors.front().dtype;
  const WireCast cast = WireCast::of(allreduce, dtype);
  const auto reduction = Reduction::of(allreduce, dtype, communicator.size);
  std::vector<const void*> of_group;  // by rank: where its bytes of the next tensor are
  if (request.tensors.size() > 1) of_group.assign(places.begin(), places.end());
  const std::span<const void* const> sources = of_group.empty() ? places : of_group;
  for (const Tensor& tensor : request.tensors) {
    const std::size_t count = count_of(tensor);
    if (count == 0) continue;
    if (cast.is_cast()) {
      std::array<std::byte, DirectRounds::kRoom> wire;
      reduce_into(reduction, ReduceStage::kWhole, wire.data(), sources, count);
      cast.widen(tensor.output, wire.data(), count);
    } else {
      fold(reduction, communicator, tensor.output, sources, count);
    }
    for (const void*& source : of_group) source = beyond(source, count * reduction.element_bytes());
  }
}

/// A reduce or a reducescatter: the elements that are due on this rank.
Status take_due(const Allreduce& allreduce, PendingRequest& pending,
                const Communicator& communicator, std::span<const void* const> places) {
  const Request& request = pending.request;
  const auto* reduce = std::get_if<Reduce>(&request.operation);
  if (reduce != nullptr && reduce->root != communicator.rank) return Status::ok();
  const auto reduction = Reduction::of(allreduce, request.tensors.front().dtype, communicator.size);
  const auto size = static_cast<std::size_t>(communicator.size);
  const auto rank = static_cast<std::size_t>(communicator.rank);
  if (reduce == nullptr) pending.gathered.resize(request.tensors.size());
  std::vector<const void*> sources(size);
  std::size_t before = 0;  // elements of the tensors before
  for (std::size_t i = 0; i < request.tensors.size(); ++i) {
    const Tensor& tensor = request.tensors[i];
    const std::size_t elements = count_of(tensor);
    std::size_t begin = 0;
    std::size_t count = elements;
    void* output = tensor.output;
    if (reduce == nullptr) {
      const std::size_t row_count = row_count_of(tensor);
      const std::size_t rows = row_count == 0 ? 0 : elements / row_count;
      begin = first_row_of(rows, size, rank) * row_count;
      count = first_row_of(rows, size, rank + 1) * row_count - begin;
      if (output == nullptr) {
        const std::array<std::size_t, 1> counts{count};
        HVD_TRY_ASSIGN(output, allocate_gathered(pending, i, row_count, counts));
      }
    }
    for (std::size_t source = 0; source < size; ++source) {
      sources[source] = beyond(places[source], (before + begin) * reduction.element_bytes());
    }
    if (count > 0) fold(reduction, communicator, output, sources, count);
    before += elements;
  }
  return Status::ok();
}

std::byte* bring(const Broadcast& broadcast, const Request& request,
                 const Communicator& communicator, std::byte* place) {
  if (broadcast.root != communicator.rank) return place;
  for (const Tensor& tensor : request.tensors) {
    const std::size_t bytes = count_of(tensor) * size_of(tensor.dtype);
    if (bytes > 0) copy_bytes(place, tensor.input, bytes);
    place += bytes;
  }
  return place;
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

bool moves_rows(const Operation& operation) {
  return is_one_of<Allgather, Alltoall, Gather, Scatter>(operation);
}

std::size_t row_bytes(const MovingCounts& counts) {
  return counts.row_length() * sizeof(std::size_t);
}

/// What a rank brings: its counts and its rows.
std::size_t moved_bytes(const Request& request, const MovingCounts& counts, int rank) {
  std::size_t bytes = row_bytes(counts);
  for (std::size_t i = 0; i < counts.segments(); ++i) {
    bytes += counts.sent(static_cast<std::size_t>(rank), i) * size_of(request.tensors[i].dtype);
  }
  return bytes;
}

std::byte* bring_rows(const PendingRequest& pending, int my_rank, std::byte* place) {
  const auto rank = static_cast<std::size_t>(my_rank);
  const MovingCounts& counts = pending.direct_rows->counts;
  std::memcpy(place, counts.row(rank), row_bytes(counts));
  place += row_bytes(counts);
  for (std::size_t i = 0; i < counts.segments(); ++i) {
    const Tensor& tensor = pending.request.tensors[i];
    const std::size_t bytes = counts.sent(rank, i) * size_of(tensor.dtype);
    if (bytes > 0) copy_bytes(place, tensor.input, bytes);
    place += bytes;
  }
  return place;
}

Status take_rows(PendingRequest& pending, int my_rank, std::span<const void* const> places) {
  const auto rank = static_cast<std::size_t>(my_rank);
  const std::size_t element = size_of(pending.request.tensors.front().dtype);
  auto& [counts, sources, received] = *pending.direct_rows;
  sources.resize(counts.size());
  received.resize(counts.size());
  for (std::size_t source = 0; source < counts.size(); ++source) {
    std::memcpy(counts.row(source), places[source], row_bytes(counts));
    sources[source] = beyond(places[source], row_bytes(counts));
  }
  pending.gathered.resize(pending.request.tensors.size());
  for (std::size_t i = 0; i < counts.segments(); ++i) {
    for (std::size_t source = 0; source < counts.size(); ++source) {
      received[source] = counts.at(source, i, rank);
    }
    HVD_TRY_ASSIGN(
        void* const memory,
        allocate_gathered(pending, i, row_count_of(pending.request.tensors[i]), received));
    auto* target = static_cast<std::byte*>(memory);
    for (std::size_t source = 0; source < counts.size(); ++source) {
      const std::size_t bytes = received[source] * element;
      const void* const rows =
          beyond(sources[source], counts.sent_before(source, i, rank) * element);
      if (bytes > 0) copy_bytes(target, rows, bytes);
      if (bytes > 0) target += bytes;
      sources[source] = beyond(sources[source], counts.sent(source, i) * element);
    }
  }
  return Status::ok();
}

}  // namespace

bool fits_direct(PendingRequest& pending, const Communicator& communicator, std::size_t room) {
  const Request& request = pending.request;
  if (request.device.kind != DeviceKind::kCpu) return false;
  const bool moves = moves_rows(request.operation);
  const auto reduction = reduction_of(request.operation);
  if (!moves && !reduction && !is_one_of<Broadcast, Barrier>(request.operation)) return false;
  if (reduction && reduction->op == ReduceOp::kAdasum) return false;
  if (request.tensors.empty()) return true;
  const auto copies = static_cast<std::size_t>(communicator.size * communicator.node_count());
  if (!pending.description.has_single_dtype()) return false;
  const DataType dtype = request.tensors.front().dtype;
  if (!check_reduction(request.operation, dtype).is_ok()) return false;  // for the backends to say
  // A node's sum of what is narrowed is rounded once more to travel: that is the backends' to do.
  if (reduction && communicator.node_count() > 1 && WireCast::of(*reduction, dtype).is_cast()) {
    return false;
  }
  std::size_t bytes = pending.description.bytes();
  if (moves) {
    pending.direct_rows = DirectRows{MovingCounts(batch_of(request), communicator), {}, {}};
    bytes = moved_bytes(request, pending.direct_rows->counts, communicator.rank);
  }
  const bool fits = bytes <= std::min(room, kMostBytes / copies);
  if (!fits) pending.direct_rows.reset();
  return fits;
}

std::size_t bring_direct(const PendingRequest& pending, const Communicator& communicator,
                         std::byte* place) {
  const Request& request = pending.request;
  const std::byte* end = place;
  if (const auto reduction = reduction_of(request.operation)) {
    end = bring(*reduction, request, place);
  } else if (const auto* broadcast = std::get_if<Broadcast>(&request.operation)) {
    end = bring(*broadcast, request, communicator, place);
  } else if (moves_rows(request.operation)) {
    end = bring_rows(pending, communicator.rank, place);
  }
  return static_cast<std::size_t>(end - place);
}

Status take_direct(PendingRequest& pending, const Communicator& communicator,
                   std::span<const void* const> places) {
  const Request& request = pending.request;
  if (moves_rows(request.operation)) return take_rows(pending, communicator.rank, places);
  if (const auto* allreduce = std::get_if<Allreduce>(&request.operation)) {
    take(*allreduce, request, communicator, places);
  } else if (const auto* broadcast = std::get_if<Broadcast>(&request.operation)) {
    take(*broadcast, request, communicator, places);
  } else if (const auto reduction = reduction_of(request.operation)) {
    return take_due(*reduction, pending, communicator, places);
  }
  return Status::ok();
}

}  // namespace hvd
