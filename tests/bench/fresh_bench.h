// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

/// The one way in which every library is timed, so that the figures can stand side by side.
///
/// Fresh: before each timed operation every rank rewrites its whole buffer, as training does, and
/// all meet in a barrier; only the operation is timed. An iteration counts with its slowest rank.
/// The figure is the median over batches of the mean of a batch.
namespace bench {

/// Elements of each tensor, one number per line.
inline std::vector<std::size_t> read_shapes(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::size_t> counts;
  for (std::size_t count = 0; file >> count;) counts.push_back(count);
  return counts;
}

struct Plan {
  std::string name;
  std::vector<std::size_t> counts;  // float32 elements of each tensor
  int batches;
  int iterations;  // per batch
};

inline double microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

/// `Peer` has rank(), size(), barrier(), allreduce(tensors) and largest(doubles): the maximum over
/// ranks of each entry, in place.
template <typename Peer>
void run(Peer& peer, const Plan& plan) {
  std::vector<std::vector<float>> tensors;
  for (const std::size_t count : plan.counts) tensors.emplace_back(count);
  const int warmup = std::max(1, plan.iterations / 4);
  std::vector<double> times;
  bool right = true;
  for (int i = -warmup; i < plan.batches * plan.iterations; ++i) {
    const float mine = static_cast<float>(peer.rank() + 1 + (i & 7));
    for (auto& tensor : tensors) std::fill(tensor.begin(), tensor.end(), mine);
    peer.barrier();
    const auto start = std::chrono::steady_clock::now();
    peer.allreduce(tensors);
    const double elapsed = microseconds_since(start);
    if (i >= 0) times.push_back(elapsed);
    const int size = peer.size();
    const float sum = static_cast<float>(size * (size + 1) / 2 + size * (i & 7));
    for (const auto& tensor : tensors)
      right = right && tensor.front() == sum && tensor.back() == sum;
  }
  peer.largest(times);
  std::vector<double> means;
  for (int batch = 0; batch < plan.batches; ++batch) {
    double total = 0;
    for (int i = 0; i < plan.iterations; ++i) total += times[batch * plan.iterations + i];
    means.push_back(total / plan.iterations);
  }
  std::sort(means.begin(), means.end());
  if (peer.rank() != 0) return;
  if (right)
    std::printf("%s %.3f\n", plan.name.c_str(), means[means.size() / 2]);
  else
    std::printf("%s wrong sum\n", plan.name.c_str());
  std::fflush(stdout);
}

/// All the plans that every library runs.
template <typename Peer>
void run_all(Peer& peer, const std::string& shapes) {
  run(peer, {"allreduce_8B", {2}, 9, 1000});
  run(peer, {"allreduce_1MB", {1 << 18}, 9, 40});
  run(peer, {"allreduce_100MB", {25 * 1000 * 1000}, 9, 2});
  run(peer, {"resnet50_list", read_shapes(shapes), 9, 2});
}

}  // namespace bench
