// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/set_plane.h"

#include <algorithm>

#include "base/check.h"
#include "engine/plane/direct_rounds.h"

namespace hvd {

namespace {

/// The world may have ranks on other nodes in its rounds.
std::size_t direct_bytes(bool is_world, int local_size) {
  const int ranks = is_world ? std::max(local_size, DirectRounds::kMostRanksOverNodes) : local_size;
  return whole_pages(DirectRounds::memory_bytes(ranks));
}

}  // namespace

std::size_t plane_memory_bytes(std::span<const BackendEntry> table, bool is_world, int local_size) {
  std::size_t bytes = direct_bytes(is_world, local_size);
  for (const BackendEntry& entry : table) bytes += whole_pages(entry.memory_bytes(local_size));
  return bytes;
}

SetPlane::SetPlane(Parts parts, std::span<const BackendEntry> table, const EngineOptions& options)
    : communicator_(std::move(parts.communicator)),
      links_(std::move(parts.links)),
      doorbell_(std::move(parts.doorbell)) {
  std::vector<Link*> lane;
  for (const auto& link : links_.lane) lane.push_back(link.get());
  const bool is_world = communicator_.process_set == 0;
  const std::size_t of_rounds = direct_bytes(is_world, communicator_.local_size());
  HVD_CHECK(of_rounds <= links_.memory.size());
  if (communicator_.node_count() == 1 ||
      (is_world && communicator_.node_count() <= DirectRounds::kMostNodes &&
       communicator_.size <= DirectRounds::kMostRanksOverNodes)) {
    direct_rounds_.emplace(links_.memory.first(of_rounds), communicator_.rank, communicator_.size,
                           &doorbell_);
    // The others must not wait for this rank.
    if (!options.has_direct(communicator_.node_count())) direct_rounds_->stop();
  }
  std::span<std::byte> memory = links_.memory.subspan(of_rounds);
  std::vector<Reducer::Candidate> candidates;
  for (const BackendEntry& entry : table) {
    const std::size_t bytes = whole_pages(entry.memory_bytes(communicator_.local_size()));
    HVD_CHECK(bytes <= memory.size());
    auto backend = entry.create(
        {.communicator = communicator_,
         .memory = memory.first(bytes),
         .doorbell = &doorbell_,
         .lane = lane,
         .lanes = links_.lanes,
         .arena = parts.arena,
         .sockets = links_.sockets,
         .gpu = {.gpus = options.gpus,
                 .start_on_host =
                     [this](Batch batch) { return reducer_->start_on_host(std::move(batch)); },
                 .stall_warning = options.stall_warning,
                 .nccl = options.nccl}});
    memory = memory.subspan(bytes);
    Reducer::Candidate& candidate = candidates.emplace_back();
    candidate.name = entry.name;
    candidate.on_gpu = entry.on_gpu;
    candidate.status = backend.status();
    if (backend.is_ok()) candidate.backend = std::move(backend).value();
  }
  reducer_ =
      std::make_unique<Reducer>(std::move(candidates), options.backend, communicator_.rank == 0);
}

SetPlane::~SetPlane() {
  // Leaked: whoever holds the memory outlives us, and nobody can tell it to stop.
  if (!reducer_->keeps_memory()) return;
  static_cast<void>(std::make_unique<std::shared_ptr<void>>(links_.owner).release());
}

bool SetPlane::has_member(int world_rank) const {
  const std::vector<int>& members = communicator_.world_ranks;
  return std::find(members.begin(), members.end(), world_rank) != members.end();
}

Reducer::Abandoned SetPlane::settle(bool on_gpu,
                                    const std::function<bool(int world_rank)>& has_ended,
                                    Deadline deadline) {
  const auto is_gone = [&](int rank) {
    return has_ended(communicator_.world_ranks[static_cast<std::size_t>(rank)]);
  };
  return reducer_->settle(on_gpu, is_gone, deadline);
}

Status SetPlane::bind_gpu(const Request& request) {
  if (!request.is_on_gpu()) return Status::ok();
  std::int32_t bound = kNoGpu;
  if (gpu_.compare_exchange_strong(bound, request.device.index) || bound == request.device.index) {
    return Status::ok();
  }
  return error(Code::kInvalidArgument,
               "rank {}: {} '{}' is on GPU {}, process set {} works on GPU {} of this rank since "
               "its first tensor; a process set uses one GPU per rank: copy the tensor there",
               communicator_.world_rank(), kind_name(request.operation), request.name,
               request.device.index, request.process_set, bound);
}

std::int32_t SetPlane::gpu_of_stand_in(Gpus* gpus, int local_rank) const {
  if (const std::int32_t bound = gpu_.load(); bound != kNoGpu) return bound;
  if (gpus == nullptr) return 0;
  const auto count = gpus->count();
  return count.is_ok() && count.value() > 0 ? local_rank % count.value() : 0;
}

Communicator part_of(const Communicator& world, const std::vector<int>& ranks) {
  Communicator part;
  part.process_set = Communicator::kUnnumbered;
  part.size = static_cast<int>(ranks.size());
  part.world_ranks = ranks;
  for (const int rank : ranks) part.hosts.push_back(world.hosts[static_cast<std::size_t>(rank)]);
  for (const std::vector<int>& node : world.nodes) {
    std::vector<int> members;
    for (const int rank : node) {
      const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
      if (found == ranks.end() || *found != rank) continue;
      const auto index = static_cast<int>(found - ranks.begin());
      if (rank == world.rank) {
        part.rank = index;
        part.local_rank = static_cast<int>(members.size());
      }
      members.push_back(index);
    }
    if (!members.empty()) part.nodes.push_back(std::move(members));
  }
  std::sort(part.nodes.begin(), part.nodes.end());
  for (std::size_t node = 0; node < part.nodes.size(); ++node) {
    const std::vector<int>& members = part.nodes[node];
    if (std::binary_search(members.begin(), members.end(), part.rank)) {
      part.node = static_cast<int>(node);
    }
  }
  return part;
}

std::vector<std::vector<int>> world_ranks_by_node(const Communicator& communicator) {
  std::vector<std::vector<int>> nodes = communicator.nodes;
  for (std::vector<int>& node : nodes) {
    for (int& rank : node) rank = communicator.world_ranks[static_cast<std::size_t>(rank)];
  }
  return nodes;
}

}  // namespace hvd
