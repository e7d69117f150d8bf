// SPDX-License-Identifier: Apache-2.0
// Does OPERATIONS operations on BYTES bytes of float32 (allreduces, except for rows) and nothing
// that depends on time, for instruction_counts.py to count.
//   count_bench engine BYTES OPERATIONS   named and negotiated, through the C interface, one rank
//   count_bench rows BYTES OPERATIONS     the same of an allgather, with a handle to release
//   count_bench plane BYTES OPERATIONS    two ranks of a node, advanced in turn by one thread
//   count_bench wire BYTES OPERATIONS     the same, travelling as float16
#include <hvd/hvd.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backends/shm/shm_backend.h"

namespace {

constexpr int kRanks = 2;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "count_bench: %s\n", what);
  std::exit(1);
}

void require(hvd_status status) {
  if (status != HVD_OK) fail(hvd_last_error());
}

void run_engine(std::vector<float>& values, int operations) {
  require(hvd_init(nullptr));
  for (int i = 0; i < operations; ++i) {
    require(
        hvd_allreduce("one", values.data(), values.data(), values.size(), HVD_FLOAT32, HVD_SUM));
  }
  require(hvd_shutdown(10));
}

void run_rows(std::vector<float>& values, int operations) {
  require(hvd_init(nullptr));
  for (int i = 0; i < operations; ++i) {
    hvd_handle handle = 0;
    require(hvd_allgather("one", values.data(), values.size(), 1, HVD_FLOAT32, &handle));
    require(hvd_release(handle));
  }
  require(hvd_shutdown(10));
}

/// One rank of a node of two, without an engine.
struct PlaneRank {
  std::unique_ptr<hvd::Doorbell> doorbell;
  hvd::Communicator communicator;
  std::unique_ptr<hvd::Backend> backend;
  std::vector<float> values;
  std::unique_ptr<hvd::Task> task;

  void start(const hvd::Allreduce& operation) {
    auto started = backend->start({.operation = operation,
                                   .dtype = hvd::DataType::kFloat32,
                                   .device = {},
                                   .segments = {{values.data(), values.data(), values.size()}},
                                   .allocate = {}});
    if (!started.is_ok()) fail("the backend does not start");
    task = std::move(started).value();
  }
  /// True when its operation is over.
  bool advance() {
    if (task == nullptr) return true;
    const hvd::Progress progress = task->advance();
    if (progress == hvd::Progress::kFailed) fail("the allreduce failed");
    if (progress == hvd::Progress::kDone) task.reset();
    return task == nullptr;
  }
};

void create(PlaneRank& rank, int number, std::span<std::byte> memory,
            std::span<hvd::SleepWord> words) {
  std::vector<hvd::UniqueFd> bells;
  for (int i = 0; i < kRanks; ++i) bells.emplace_back(eventfd(0, EFD_NONBLOCK));
  rank.doorbell = std::make_unique<hvd::Doorbell>(words, std::move(bells), number);
  rank.communicator = {.process_set = 0,
                       .rank = number,
                       .size = kRanks,
                       .world_ranks = {0, 1},
                       .nodes = {{0, 1}},
                       .node = 0,
                       .local_rank = number,
                       .hosts = {"here", "here"}};
  auto backend = hvd::kShmBackend.create({.communicator = rank.communicator,
                                          .memory = memory,
                                          .doorbell = rank.doorbell.get(),
                                          .lane = {nullptr},
                                          .lanes = 0});
  if (!backend.is_ok()) fail("there is no backend");
  rank.backend = std::move(backend).value();
}

void run_plane(std::size_t count, int operations, const hvd::Allreduce& operation) {
  const std::size_t bytes = hvd::kShmBackend.memory_bytes(kRanks);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (memory == nullptr) fail("there is no memory");
  std::fill_n(memory, bytes, std::byte{0});
  hvd::SleepWord words[kRanks];
  {
    PlaneRank ranks[kRanks];
    for (int i = 0; i < kRanks; ++i) create(ranks[i], i, {memory, bytes}, words);
    for (PlaneRank& rank : ranks) rank.values.assign(count, 0.5F);
    for (int i = 0; i < operations; ++i) {
      for (PlaneRank& rank : ranks) rank.start(operation);
      for (bool all_done = false; !all_done;) {
        all_done = true;
        for (PlaneRank& rank : ranks) all_done = rank.advance() && all_done;
      }
    }
  }
  std::free(memory);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) fail("usage: count_bench engine|rows|plane|wire BYTES OPERATIONS");
  const std::string_view what = argv[1];
  std::vector<float> values(std::strtoull(argv[2], nullptr, 10) / sizeof(float));
  const int operations = std::atoi(argv[3]);
  if (what == "engine") {
    run_engine(values, operations);
  } else if (what == "rows") {
    run_rows(values, operations);
  } else if (what == "plane") {
    run_plane(values.size(), operations, {});
  } else if (what == "wire") {
    run_plane(values.size(), operations, {.wire = hvd::Wire::kFloat16});
  } else {
    fail("the first argument is engine, rows, plane or wire");
  }
  return 0;
}
