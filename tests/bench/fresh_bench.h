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
/// Fresh: before each timed operation every rank rewrites its whole input, as training does, and
/// all meet in a barrier; only the operation is timed. An iteration counts with its slowest rank.
/// The figure is the median over batches of the mean of a batch.
namespace bench {

/// float32 tensors in memory of the kind that the peer is measured with.
template <typename Peer>
using TensorsOf = std::vector<typename Peer::Buffer>;

inline double microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

/// How often an operation on `bytes` bytes is repeated in a batch.
inline int iterations_for(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>((40U << 20) / (bytes + 1), 2, 1000));
}

/// Times `operation` on what `refill` prepares; `is_right` looks at the result.
/// `Peer` has Buffer, a container of floats, rank(), size(), barrier() and largest(doubles): the
/// maximum over ranks of each, in place.
template <typename Peer, typename Refill, typename Operation, typename IsRight>
void time_case(Peer& peer, const std::string& name, int iterations, Refill refill,
               Operation operation, IsRight is_right) {
  constexpr int kBatches = 9;
  const int warmup = std::max(1, iterations / 4);
  std::vector<double> times;
  bool right = true;
  for (int i = -warmup; i < kBatches * iterations; ++i) {
    refill(i & 7);
    peer.barrier();
    const auto start = std::chrono::steady_clock::now();
    operation();
    const double elapsed = microseconds_since(start);
    if (i >= 0) times.push_back(elapsed);
    right = right && is_right(i & 7);
  }
  peer.largest(times);
  std::vector<double> means;
  for (int batch = 0; batch < kBatches; ++batch) {
    double total = 0;
    for (int i = 0; i < iterations; ++i) {
      total += times[static_cast<std::size_t>(batch * iterations + i)];
    }
    means.push_back(total / iterations);
  }
  std::sort(means.begin(), means.end());
  if (peer.rank() != 0) return;
  if (right)
    std::printf("%s %.3f\n", name.c_str(), means[means.size() / 2]);
  else
    std::printf("%s wrong result\n", name.c_str());
  std::fflush(stdout);
}

/// The sum over `size` ranks of what they fill in: rank + 1 + turn.
inline float sum_of_fills(int size, int turn) {
  return static_cast<float>(size * (size + 1) / 2 + size * turn);
}

template <typename Peer>
void time_allreduce(Peer& peer, const std::string& name, const std::vector<std::size_t>& counts) {
  TensorsOf<Peer> tensors;
  std::size_t total = 0;
  for (const std::size_t count : counts) {
    tensors.emplace_back(count);
    total += count * sizeof(float);
  }
  time_case(
      peer, name, iterations_for(total),
      [&](int turn) {
        for (auto& tensor : tensors) {
          std::fill(tensor.begin(), tensor.end(), static_cast<float>(peer.rank() + 1 + turn));
        }
      },
      [&] { peer.allreduce(tensors); },
      [&](int turn) {
        const float sum = sum_of_fills(peer.size(), turn);
        return std::all_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
          return tensor.front() == sum && tensor.back() == sum;
        });
      });
}

/// An operation from `input` to `output` elements; the first and last output must be as given.
template <typename Peer, typename Operation, typename Expected>
void time_one(Peer& peer, const std::string& name, std::size_t input, std::size_t output,
              Operation operation, Expected expected) {
  std::vector<float> in(input);
  std::vector<float> out(output);
  time_case(
      peer, name, iterations_for(std::max(input, output) * sizeof(float)),
      [&](int turn) {
        std::fill(in.begin(), in.end(), static_cast<float>(peer.rank() + 1 + turn));
      },
      [&] { operation(in, out); },
      [&](int turn) {
        const auto [first, last] = expected(turn);
        return out.front() == first && out.back() == last;
      });
}

struct Ends {
  float first;
  float last;
};

/// The other collectives on `bytes` bytes: of the whole tensor, so an allgather puts in, and a
/// reducescatter takes out, one part of it per rank.
template <typename Peer>
void time_operations(Peer& peer, const std::string& label, std::size_t bytes) {
  const auto size = static_cast<std::size_t>(peer.size());
  const std::size_t part = std::max<std::size_t>(1, bytes / sizeof(float) / size);
  const std::size_t whole = part * size;
  const auto of_all = [&](int turn) {
    return Ends{static_cast<float>(1 + turn), static_cast<float>(peer.size() + turn)};
  };
  using Floats = std::vector<float>;
  time_one(
      peer, "broadcast_" + label, whole, whole,
      [&](Floats& in, Floats& out) {
        peer.broadcast(peer.rank() == 0 ? in : out);
        if (peer.rank() == 0) out.front() = in.front(), out.back() = in.back();
      },
      [](int turn) {
        return Ends{static_cast<float>(1 + turn), static_cast<float>(1 + turn)};
      });
  time_one(
      peer, "allgather_" + label, part, whole,
      [&](const Floats& in, Floats& out) { peer.allgather(in, out); }, of_all);
  time_one(
      peer, "alltoall_" + label, whole, whole,
      [&](const Floats& in, Floats& out) { peer.alltoall(in, out); }, of_all);
  if constexpr (requires(Floats & f) { peer.reducescatter(f, f); }) {
    time_one(
        peer, "reducescatter_" + label, whole, part,
        [&](const Floats& in, Floats& out) { peer.reducescatter(in, out); },
        [&](int turn) {
          return Ends{sum_of_fills(peer.size(), turn), sum_of_fills(peer.size(), turn)};
        });
  }
}

/// Elements of each tensor, one number per line.
inline std::vector<std::size_t> read_shapes(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::size_t> counts;
  for (std::size_t count = 0; file >> count;) counts.push_back(count);
  return counts;
}

struct Size {
  const char* label;
  std::size_t bytes;
};
inline constexpr Size kSizes[] = {
    {"8B", 8},        {"1KB", 1 << 10},   {"16KB", 16 << 10},    {"256KB", 1 << 18},
    {"1MB", 1 << 20}, {"16MB", 16 << 20}, {"100MB", 100'000'000}};

/// What every library runs. `what`: "sizes" (allreduce of each size), "operations" (the other
/// collectives of each size), or a file of shapes (an allreduce of that list, called by the stem of
/// the file).
template <typename Peer>
void run_suite(Peer& peer, const std::string& what) {
  if (what == "sizes") {
    for (const Size& size : kSizes) {
      time_allreduce(peer, std::string("allreduce_") + size.label, {size.bytes / sizeof(float)});
    }
    return;
  }
  if (what == "operations") {
    for (const Size& size : kSizes) time_operations(peer, size.label, size.bytes);
    return;
  }
  const std::size_t slash = what.rfind('/') + 1;
  time_allreduce(peer, what.substr(slash, what.rfind('.') - slash), read_shapes(what));
}

/// All the suites that the command line names.
template <typename Peer>
void run_suites(Peer& peer, char** first, char** last) {
  for (; first != last; ++first) run_suite(peer, *first);
}

}  // namespace bench
