// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/fusion.h"

#include <algorithm>
#include <numeric>

namespace hvd {

bool may_fuse(const Description& a, const Description& b) {
  return a.has_single_dtype() && b.has_single_dtype() &&
         a.tensors.front().dtype == b.tensors.front().dtype && a.operation == b.operation &&
         a.device == b.device && a.process_set == b.process_set && a.priority == b.priority;
}

namespace {

/// Where a tensor of a batch comes from: the n-th tensor of a request.
struct Source {
  PendingPtr pending;
  std::size_t tensor = 0;
};

std::size_t product(std::span<const std::int64_t> shape) {
  std::size_t count = 1;
  for (const auto dimension : shape) count *= static_cast<std::size_t>(dimension);
  return count;
}

/// The indices of the requests, urgent ones first, else as they came; nothing when none is more
/// urgent than another.
std::vector<std::size_t> by_priority(std::span<const Description* const> complete) {
  const bool differ = std::any_of(complete.begin(), complete.end(), [&](const Description* one) {
    return one->priority != complete.front()->priority;
  });
  if (!differ) return {};
  std::vector<std::size_t> order(complete.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return complete[a]->priority > complete[b]->priority;
  });
  return order;
}

}  // namespace

std::size_t row_count_of(const Tensor& tensor) {
  return tensor.shape.empty() ? 1 : product(std::span(tensor.shape).subspan(1));
}

void append_segment(Batch& batch, const Tensor& tensor) {
  const std::size_t row_count = row_count_of(tensor);
  batch.segments.push_back({tensor.input, tensor.output, product(tensor.shape), row_count});
  if (!kind_of(batch.operation).has_splits) return;
  for (const std::int64_t rows : tensor.splits) {
    batch.splits.push_back(static_cast<std::size_t>(rows) * row_count);
  }
}

Result<void*> allocate_gathered(PendingRequest& pending, std::size_t index, std::size_t row_count,
                                std::span<const std::size_t> counts) {
  const Tensor& tensor = pending.request.tensors[index];
  GatherResult& result = pending.gathered[index];
  result.shape = tensor.shape;
  if (result.shape.empty()) result.shape.push_back(1);
  std::size_t total = 0;
  std::int64_t rows = 0;
  for (const std::size_t count : counts) {
    result.rows.push_back(static_cast<std::int64_t>(row_count == 0 ? 0 : count / row_count));
    rows += result.rows.back();
    total += count;
  }
  result.shape.front() = rows;
  if (total == 0) return static_cast<void*>(nullptr);
  const std::size_t bytes = total * size_of(tensor.dtype);
  if (bytes <= tensor.output_bytes) {
    result.given = static_cast<std::byte*>(tensor.output);
    return tensor.output;
  }
  if (pending.gpu.ready != nullptr) {
    Gpu& gpu = pending.gpu.ready->gpu();
    HVD_TRY_ASSIGN(void* const memory, gpu.allocate(bytes));
    result.data = {static_cast<std::byte*>(memory), FreeRows{&gpu, pending.gpu.reaper}};
    return memory;
  }
  result.data.reset(new (std::nothrow) std::byte[bytes]);
  if (result.data == nullptr) {
    return error(Code::kSystem, "tensor '{}': no memory for the {} bytes of the gathered rows",
                 pending.request.name, bytes);
  }
  return static_cast<void*>(result.data.get());
}

std::vector<std::vector<std::size_t>> fuse(std::span<const Description* const> complete,
                                           std::size_t fusion_bytes) {
  if (complete.size() == 1) return {std::vector<std::size_t>{0}};  // the usual case
  struct Group {
    std::vector<std::size_t> members;
    std::size_t bytes = 0;
  };
  std::vector<Group> groups;
  const std::vector<std::size_t> order = by_priority(complete);
  for (std::size_t place = 0; place < complete.size(); ++place) {
    const std::size_t i = order.empty() ? place : order[place];
    const std::size_t bytes = complete[i]->bytes();
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& candidate) {
      return candidate.bytes + bytes <= fusion_bytes &&
             may_fuse(*complete[candidate.members.front()], *complete[i]);
    });
    if (group != groups.end()) {
      group->members.push_back(i);
      group->bytes += bytes;
    } else {
      groups.push_back({{i}, bytes});
    }
  }
  std::vector<std::vector<std::size_t>> runs;
  runs.reserve(groups.size());
  for (Group& group : groups) runs.push_back(std::move(group.members));
  return runs;
}

std::vector<FusedBatch> make_batches(const std::vector<PendingPtr>& run) {
  std::vector<FusedBatch> batches;
  std::vector<std::vector<Source>> sources;  // of results that are made; few operations have them
  for (const PendingPtr& pending : run) {
    const Operation& operation = pending->request.operation;
    const bool makes = kind_of(operation).output == Memory::kLibrary;
    if (makes) pending->gathered.resize(pending->request.tensors.size());
    for (std::size_t i = 0; i < pending->request.tensors.size(); ++i) {
      const Tensor& tensor = pending->request.tensors[i];
      const auto found = std::find_if(batches.begin(), batches.end(), [&](const FusedBatch& b) {
        return b.batch.dtype == tensor.dtype;
      });
      const auto index = static_cast<std::size_t>(found - batches.begin());
      if (found == batches.end()) {
        FusedBatch& fused = batches.emplace_back();
        fused.batch.operation = operation;
        fused.batch.dtype = tensor.dtype;
        fused.batch.device = pending->request.device;
        fused.batch.gpu.is_neutral =
            pending->is_stand_in && pending->request.device.kind != DeviceKind::kCpu;
        if (makes) sources.emplace_back();
      }
      FusedBatch& fused = batches[index];
      append_segment(fused.batch, tensor);
      if (makes) sources[index].push_back({pending, i});
      if (fused.owners.empty() || fused.owners.back() != pending) {
        fused.owners.push_back(pending);
        ++pending->batches_left;
        ++pending->gpu.batches_to_enqueue;
      }
    }
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::vector<std::size_t> row_counts;
    for (const Segment& segment : batches[i].batch.segments)
      row_counts.push_back(segment.row_count);
    batches[i].batch.allocate = [from = sources[i], row_counts = std::move(row_counts)](
                                    std::size_t segment, std::span<const std::size_t> counts) {
      return allocate_gathered(*from[segment].pending, from[segment].tensor, row_counts[segment],
                               counts);
    };
  }
  return batches;
}

Result<std::vector<GpuEventPtr>> ready_events(const std::vector<PendingPtr>& requests) {
  // Of one stream the latest request has the latest point: its handle is older than its point, and
  // what the others wait for was in the stream before they had theirs.
  std::vector<const PendingRequest*> latest;
  for (const PendingPtr& request : requests) {
    if (request->gpu.ready == nullptr) continue;
    const auto found = std::find_if(latest.begin(), latest.end(), [&](const PendingRequest* other) {
      return other->gpu.ready->stream() == request->gpu.ready->stream() &&
             &other->gpu.ready->gpu() == &request->gpu.ready->gpu();
    });
    if (found == latest.end()) {
      latest.push_back(request.get());
    } else if (request->handle > (*found)->handle) {
      *found = request.get();
    }
  }
  std::vector<GpuEventPtr> events;
  for (const PendingRequest* pending : latest) {
    auto event = pending->gpu.ready->event();
    if (!event.is_ok()) {
      return event.status().with_context(
          format_text("'{}': its stream must stay, uncaptured, until hvd_flush() or a wait",
                      pending->request.name));
    }
    events.push_back(std::move(event).value());
  }
  return events;
}

}  // namespace hvd
