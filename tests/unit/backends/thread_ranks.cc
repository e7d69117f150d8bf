// SPDX-License-Identifier: Apache-2.0
#include "thread_ranks.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "base/deadline.h"
#include "bootstrap/thread_world.h"

namespace hvd {
namespace {

Communicator communicator_of(const Wiring& wiring) {
  Communicator communicator;
  communicator.rank = wiring.rank;
  communicator.size = wiring.size;
  for (const PeerInfo& peer : wiring.peers) {
    communicator.world_ranks.push_back(peer.rank);
    communicator.hosts.push_back(peer.host);
    const auto node = static_cast<std::size_t>(peer.node);
    if (communicator.nodes.size() <= node) communicator.nodes.resize(node + 1);
    communicator.nodes[node].push_back(peer.rank);
  }
  const PeerInfo& me = wiring.peers[static_cast<std::size_t>(wiring.rank)];
  communicator.node = me.node;
  communicator.local_rank = me.local_rank;
  return communicator;
}

void create_backend(const BackendEntry& entry, ThreadRank& rank) {
  std::vector<Link*> lane;
  for (const auto& link : rank.wiring.lane) lane.push_back(link.get());
  auto backend = entry.create({.communicator = rank.communicator,
                               .memory = rank.wiring.node.memory,
                               .doorbell = rank.wiring.node.doorbell.get(),
                               .lane = std::move(lane),
                               .lanes = rank.wiring.lanes,
                               .sockets = rank.wiring.sockets});
  ASSERT_TRUE(backend.is_ok()) << backend.status().message();
  rank.backend = std::move(backend).value();
}

}  // namespace

void run_ranks(const BackendEntry& entry, const std::vector<int>& node_sizes,
               const std::function<void(ThreadRank&)>& body, int sockets) {
  const int size = std::accumulate(node_sizes.begin(), node_sizes.end(), 0);
  auto wirings = wire_threads({.size = size,
                               .node_sizes = node_sizes,
                               .memory_bytes = entry.memory_bytes,
                               .sockets = sockets});
  ASSERT_TRUE(wirings.is_ok()) << wirings.status().message();
  std::vector<ThreadRank> ranks(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].wiring = std::move(wirings.value()[i]);
    ranks[i].communicator = communicator_of(ranks[i].wiring);
    create_backend(entry, ranks[i]);
    ASSERT_NE(ranks[i].backend, nullptr);
  }
  std::vector<std::thread> threads;
  for (ThreadRank& rank : ranks) threads.emplace_back([&] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

void finish(std::vector<std::unique_ptr<Task>>& tasks) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(60));
  std::size_t done = 0;
  std::vector<bool> is_done(tasks.size());
  while (done < tasks.size()) {
    bool moved = false;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (is_done[i]) continue;
      const Progress progress = tasks[i]->advance();
      ASSERT_NE(progress, Progress::kFailed) << tasks[i]->status().message();
      moved = moved || progress != Progress::kBlocked;
      if (progress != Progress::kDone) continue;
      is_done[i] = true;
      ++done;
    }
    if (moved) continue;
    ASSERT_FALSE(deadline.has_passed()) << "no progress; " << done << " tasks are done";
    std::this_thread::yield();
  }
}

void run_batch(ThreadRank& rank, Batch batch) {
  auto task = rank.backend->start(std::move(batch));
  ASSERT_TRUE(task.is_ok()) << task.status().message();
  std::vector<std::unique_ptr<Task>> tasks;
  tasks.push_back(std::move(task).value());
  finish(tasks);
}

std::string shape_text(const std::vector<int>& node_sizes) {
  std::string text;
  for (const int ranks : node_sizes) text += (text.empty() ? "" : "+") + std::to_string(ranks);
  return text;
}

}  // namespace hvd
