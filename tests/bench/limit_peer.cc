// SPDX-License-Identifier: Apache-2.0
// The least work that a collective of two ranks can be, as a yardstick: two threads of one process,
// each with a core, that read and write each other's tensors between two barriers. No name, no
// agreement, no slot, nobody sleeps. An allreduce: each adds one half and writes it to both.
//   limit_peer SUITE...   see run_suite() in fresh_bench.h
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "fresh_bench.h"

namespace {

struct alignas(64) Arrivals {
  std::atomic<std::uint64_t> count{0};
};

struct Meeting {
  std::array<Arrivals, 2> arrivals;
  std::array<std::vector<std::vector<float>>*, 2> tensors{};
  std::array<const std::vector<float>*, 2> inputs{};
  std::array<std::vector<double>*, 2> times{};
};

void add_to_both(float* __restrict mine, float* __restrict theirs, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = mine[i] + theirs[i];
    mine[i] = sum;
    theirs[i] = sum;
  }
}

class ThreadPeer {
 public:
  using Buffer = std::vector<float>;

  ThreadPeer(Meeting& meeting, int rank)
      : meeting_(meeting), me_(static_cast<std::size_t>(rank)), other_(1 - me_) {}

  int rank() const { return static_cast<int>(me_); }
  int size() const { return 2; }

  void barrier() {
    meeting_.arrivals[me_].count.store(++met_);
    while (meeting_.arrivals[other_].count.load() < met_) {
      // Each thread has a core to itself.
    }
  }

  void allreduce(std::vector<Buffer>& tensors) {
    meeting_.tensors[me_] = &tensors;
    barrier();
    std::vector<Buffer>& theirs = *meeting_.tensors[other_];
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::size_t half = tensors[i].size() / 2;
      const std::size_t begin = me_ == 0 ? 0 : half;
      const std::size_t count = me_ == 0 ? half : tensors[i].size() - half;
      add_to_both(tensors[i].data() + begin, theirs[i].data() + begin, count);
    }
    barrier();
  }

  void broadcast(std::vector<float>& data) {
    const std::vector<float>& root = meet(data, 0);
    if (me_ != 0) std::copy(root.begin(), root.end(), data.begin());
    barrier();
  }
  void allgather(const std::vector<float>& in, std::vector<float>& out) {
    const std::vector<float>& theirs = meet(in, other_);
    std::copy(in.begin(), in.end(), out.begin() + offset(me_, in.size()));
    std::copy(theirs.begin(), theirs.end(), out.begin() + offset(other_, in.size()));
    barrier();
  }
  void alltoall(const std::vector<float>& in, std::vector<float>& out) {
    const std::vector<float>& theirs = meet(in, other_);
    const std::size_t half = in.size() / 2;
    const auto mine = offset(me_, half);
    std::copy_n(in.begin() + mine, half, out.begin() + mine);
    std::copy_n(theirs.begin() + mine, half, out.begin() + offset(other_, half));
    barrier();
  }
  void reducescatter(const std::vector<float>& in, std::vector<float>& out) {
    const std::vector<float>& theirs = meet(in, other_);
    const auto mine = offset(me_, out.size());
    std::transform(in.begin() + mine, in.begin() + mine + offset(1, out.size()),
                   theirs.begin() + mine, out.begin(), std::plus<float>());
    barrier();
  }

  void largest(std::vector<double>& values) {
    meeting_.times[me_] = &values;
    barrier();
    std::vector<double> both = values;
    for (std::size_t i = 0; i < both.size(); ++i) {
      both[i] = std::max(both[i], (*meeting_.times[other_])[i]);
    }
    barrier();
    values = both;
  }

 private:
  /// Both have given theirs; that of `rank`.
  const std::vector<float>& meet(const std::vector<float>& mine, std::size_t rank) {
    meeting_.inputs[me_] = &mine;
    barrier();
    return *meeting_.inputs[rank];
  }
  static std::ptrdiff_t offset(std::size_t rank, std::size_t count) {
    return static_cast<std::ptrdiff_t>(rank * count);
  }

  Meeting& meeting_;
  std::size_t me_;
  std::size_t other_;
  std::uint64_t met_ = 0;
};

void run(Meeting& meeting, int rank, char** begin, char** end) {
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(rank, &core);
  pthread_setaffinity_np(pthread_self(), sizeof core, &core);
  ThreadPeer peer(meeting, rank);
  bench::run_suites(peer, begin, end);
}

}  // namespace

int main(int argc, char** argv) {
  Meeting meeting;
  std::thread second([&] { run(meeting, 1, argv + 1, argv + argc); });
  run(meeting, 0, argv + 1, argv + argc);
  second.join();
}
