// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collective/batch.h"
#include "engine/request/pending_request.h"

namespace hvd {

/// True for requests that may travel in one run: equal operation, element type, device, process set
/// and priority.
bool may_fuse(const Description& a, const Description& b);

/// Groups the complete requests (by index, in the order they became complete) into runs: requests
/// that may_fuse() travel together, up to `fusion_bytes` a run. Runs of a higher priority come
/// first. A request with several element types, or none, runs alone. Pure.
std::vector<std::vector<std::size_t>> fuse(std::span<const Description* const> complete,
                                           std::size_t fusion_bytes);

/// The requests of one run as batches for a backend: one per element type, in order of first
/// appearance. Counts batches_left and batches_to_enqueue of each request. Equal on every rank but
/// for the memory.
struct FusedBatch {
  Batch batch;
  std::vector<PendingPtr> owners;  ///< Requests with a tensor in the batch, each once.
};
std::vector<FusedBatch> make_batches(const std::vector<PendingPtr>& run);

/// Elements of a row: of all dimensions but the first.
std::size_t row_count_of(const Tensor& tensor);
/// Appends the tensor, with its splits where the operation has them.
void append_segment(Batch& batch, const Tensor& tensor);
/// Memory for the rows that come from all ranks to tensor `index`, in elements by rank: what
/// Batch::allocate() of make_batches() does. kSystem: there is none.
Result<void*> allocate_gathered(PendingRequest& pending, std::size_t index, std::size_t row_count,
                                std::span<const std::size_t> counts);

/// GPU memory: where the inputs of these requests are ready, one event for each stream. Records
/// those that have not been.
Result<std::vector<GpuEventPtr>> ready_events(const std::vector<PendingPtr>& requests);

}  // namespace hvd
