// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/set_plane.h"

#include <algorithm>

#include "base/check.h"

namespace hvd {

std::size_t plane_memory_bytes(std::span<const BackendEntry> table, int local_size) {
  std::size_t bytes = 0;
  for (const BackendEntry& entry : table) bytes += whole_pages(entry.memory_bytes(local_size));
  return bytes;
}

SetPlane::~SetPlane() {
  // Leaked: whoever holds the memory outlives us, and nobody can tell it to stop.
  if (reduction == nullptr || !reduction->keeps_memory()) return;
  static_cast<void>(std::make_unique<std::shared_ptr<void>>(links.owner).release());
}

void SetPlane::open(std::span<const BackendEntry> table, std::span<std::byte> memory,
                    const EngineOptions& options) {
  std::vector<Link*> lane;
  for (const auto& link : links.lane) lane.push_back(link.get());
  std::vector<Reducer::Candidate> candidates;
  for (const BackendEntry& entry : table) {
    const std::size_t bytes = whole_pages(entry.memory_bytes(communicator.local_size()));
    HVD_CHECK(bytes <= memory.size());
    auto backend = entry.create(
        {.communicator = communicator,
         .memory = memory.first(bytes),
         .doorbell = &doorbell,
         .lane = lane,
         .lanes = links.lanes,
         .arena = arena,
         .sockets = links.sockets,
         .gpus = options.gpus,
         .start_on_host =
             [this](Batch batch) { return reduction->start_on_host(std::move(batch)); },
         .stall_warning = options.stall_warning});
    memory = memory.subspan(bytes);
    Reducer::Candidate& candidate = candidates.emplace_back();
    candidate.name = entry.name;
    candidate.on_gpu = entry.on_gpu;
    candidate.status = backend.status();
    if (backend.is_ok()) candidate.backend = std::move(backend).value();
  }
  reduction =
      std::make_unique<Reducer>(std::move(candidates), options.backend, communicator.rank == 0);
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
