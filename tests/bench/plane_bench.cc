// SPDX-License-Identifier: Apache-2.0
// Times the shared-memory plane alone: two forked processes, no engine. "Fresh": each repetition
// rewrites the whole buffer and meets the peer before the clock starts, as a training step does.
// Prints the slower rank's mean, as minimum and median over the batches.
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "backends/shm/shm_backend.h"

namespace {

using hvd::Backend;
using Seconds = std::chrono::duration<double>;

constexpr int kRanks = 2;
constexpr int kBatches = 9;

struct alignas(64) Meeting {
  std::atomic<int> arrived{0};
};
struct Shared {
  Meeting meeting;
  hvd::SleepWord words[kRanks];
  double seconds[kRanks];
};

/// Float32 tensors, and what they travel as.
struct Work {
  std::vector<std::vector<float>*> tensors;
  hvd::Allreduce operation;
};

struct Rank {
  int rank;
  Shared* shared;
  Backend* backend;
  int meetings = 0;

  void meet() {
    ++meetings;
    ++shared->meeting.arrived;
    for (int spins = 0; shared->meeting.arrived < kRanks * meetings; ++spins) {
      if (spins > 2000) sched_yield();
    }
  }
};

void run(Backend& backend, const hvd::Allreduce& operation,
         const std::vector<hvd::Segment>& segments) {
  auto task = backend.start({.operation = operation,
                             .dtype = hvd::DataType::kFloat32,
                             .device = {},
                             .segments = segments,
                             .allocate = {}});
  if (!task.is_ok()) std::abort();
  for (int blocked = 0;;) {
    const hvd::Progress progress = task.value()->advance();
    if (progress == hvd::Progress::kDone) return;
    if (progress == hvd::Progress::kFailed) std::abort();
    blocked = progress == hvd::Progress::kBlocked ? blocked + 1 : 0;
    if (blocked > 2000) sched_yield();
  }
}

double time_batch(Rank& rank, const Work& work, int repetitions) {
  const auto& tensors = work.tensors;
  std::vector<hvd::Segment> segments;
  for (auto* tensor : tensors) {
    segments.push_back(
        {.input = tensor->data(), .output = tensor->data(), .count = tensor->size()});
  }
  Seconds total{0};
  for (int i = 0; i < repetitions; ++i) {
    for (auto* tensor : tensors) std::fill(tensor->begin(), tensor->end(), 1.0F + rank.rank);
    rank.meet();
    const auto begin = std::chrono::steady_clock::now();
    run(*rank.backend, work.operation, segments);
    total += std::chrono::steady_clock::now() - begin;
    if (tensors.front()->front() != 3.0F || tensors.back()->back() != 3.0F) std::abort();
  }
  return total.count() / repetitions;
}

void time_list(Rank& rank, const char* name, const std::vector<std::size_t>& counts,
               const hvd::Allreduce& operation = {}) {
  std::vector<std::vector<float>> storage;
  for (const std::size_t count : counts) storage.emplace_back(count);
  Work work{.tensors = {}, .operation = operation};
  for (auto& tensor : storage) work.tensors.push_back(&tensor);
  const auto bytes =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::size_t{0})) * 4;
  const int repetitions = static_cast<int>(std::clamp(1e8 / bytes, 2.0, 2000.0));
  std::vector<double> slower;
  time_batch(rank, work, std::min(repetitions, 20));
  for (int batch = 0; batch < kBatches; ++batch) {
    rank.shared->seconds[rank.rank] = time_batch(rank, work, repetitions);
    rank.meet();
    slower.push_back(*std::max_element(rank.shared->seconds, rank.shared->seconds + kRanks));
    rank.meet();
  }
  std::sort(slower.begin(), slower.end());
  if (rank.rank != 0) return;
  std::printf("%-18s %12.2f us min %12.2f us median\n", name, slower.front() * 1e6,
              slower[kBatches / 2] * 1e6);
  std::fflush(stdout);
}

std::vector<std::size_t> read_counts(const char* path) {
  std::vector<std::size_t> counts;
  std::ifstream file(path);
  for (std::size_t count = 0; file >> count;) counts.push_back(count);
  return counts;
}

int run_rank(Rank rank, const char* shapes_path) {
  const std::vector<std::pair<const char*, std::size_t>> sizes = {
      {"8 B", 2},       {"1 KB", 256},      {"16 KB", 4096},       {"256 KB", 65536},
      {"1 MB", 262144}, {"16 MB", 4194304}, {"100 MB", 25'000'000}};
  for (const auto& [name, count] : sizes) time_list(rank, name, {count});
  time_list(rank, "1 MB as float16", {262144}, {.wire = hvd::Wire::kFloat16});
  time_list(rank, "1 MB as bfloat16", {262144}, {.wire = hvd::Wire::kBfloat16});
  time_list(rank, "100 MB as float16", {25'000'000}, {.wire = hvd::Wire::kFloat16});
  time_list(rank, "100 MB as bfloat16", {25'000'000}, {.wire = hvd::Wire::kBfloat16});
  if (shapes_path != nullptr) time_list(rank, "resnet50", read_counts(shapes_path));
  return 0;
}

void bind_to(int index) {
  cpu_set_t all;
  sched_getaffinity(0, sizeof(all), &all);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all) || index-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

void* map_shared(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

}  // namespace

int main(int argc, char** argv) {
  auto* shared = new (map_shared(sizeof(Shared))) Shared;
  const std::size_t bytes = hvd::kShmBackend.memory_bytes(kRanks);
  const std::span memory(static_cast<std::byte*>(map_shared(bytes)), bytes);
  std::vector<int> bells;
  for (int i = 0; i < kRanks; ++i) bells.push_back(eventfd(0, EFD_NONBLOCK));
  const pid_t child = fork();
  const int rank = child == 0 ? 1 : 0;
  bind_to(rank);
  std::vector<hvd::UniqueFd> owned;
  for (const int bell : bells) owned.emplace_back(bell);
  hvd::Doorbell doorbell(shared->words, std::move(owned), rank);
  const hvd::Communicator communicator{.process_set = 0,
                                       .rank = rank,
                                       .size = kRanks,
                                       .world_ranks = {0, 1},
                                       .nodes = {{0, 1}},
                                       .node = 0,
                                       .local_rank = rank,
                                       .hosts = {"here", "here"}};
  auto backend = hvd::kShmBackend.create({.communicator = communicator,
                                          .memory = memory,
                                          .doorbell = &doorbell,
                                          .lane = {nullptr},
                                          .lanes = 0});
  if (!backend.is_ok()) return 1;
  const int status = run_rank({.rank = rank, .shared = shared, .backend = backend.value().get()},
                              argc > 1 ? argv[1] : nullptr);
  if (child == 0) _exit(status);
  waitpid(child, nullptr, 0);
  return status;
}
