// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/thread_world.h"
#include "engine/epoch.h"

namespace hvd {

/// What the tasks of one rank say, for a test to change.
struct TaskPlan {
  Progress progress = Progress::kDone;
  Status failure;
};

class PlannedByHandTask : public Task {
 public:
  explicit PlannedByHandTask(const TaskPlan& plan) : plan_(plan) {}
  Progress advance() override { return plan_.progress; }
  const Status& status() const override { return plan_.failure; }

 private:
  const TaskPlan& plan_;
};

class PlannedByHandBackend : public Backend {
 public:
  explicit PlannedByHandBackend(const TaskPlan& plan) : plan_(plan) {}
  std::string_view name() const override { return "by hand"; }
  Status supports(const Operation&, DataType, Device) const override { return Status::ok(); }
  std::string reach() const override { return "a test"; }
  bool reproducible() const override { return true; }
  Result<std::unique_ptr<Task>> start(Batch) override {
    return std::unique_ptr<Task>(std::make_unique<PlannedByHandTask>(plan_));
  }

 private:
  const TaskPlan& plan_;
};

/// Ranks of a job whose epochs one thread steps, rank by rank: what happens is what the test does.
class RanksByHand {
 public:
  struct Rank {
    explicit Rank(int rank) : timeline(rank, "host"), submission(timeline) {}
    TaskPlan plan;
    Timeline timeline;
    Completion completion{1};
    Submission submission;
    std::vector<BackendEntry> table;
    int frozen = 0;
    std::vector<int> losses;
    std::unique_ptr<Epoch> epoch;
  };

  explicit RanksByHand(const std::vector<int>& node_sizes) : node_sizes_(node_sizes) {
    int size = 0;
    for (const int node_size : node_sizes) size += node_size;
    for (int rank = 0; rank < size; ++rank) {
      Rank& one = ranks_.emplace_back(rank);
      one.table.push_back(
          {.name = "by hand",
           .memory_bytes = [](int) { return std::size_t{0}; },
           .create = [&one](const BackendContext&) -> Result<std::unique_ptr<Backend>> {
             return std::unique_ptr<Backend>(std::make_unique<PlannedByHandBackend>(one.plan));
           }});
    }
    open();
  }

  /// Begins a membership, instead of the last one if there was one.
  void open() {
    auto wirings = wire_threads(
        {.size = size(), .node_sizes = node_sizes_, .memory_bytes = [this](int local_size) {
           return node_memory_bytes(ranks_.front().table, local_size);
         }});
    ASSERT_TRUE(wirings.is_ok()) << wirings.status().message();
    for (int rank = 0; rank < size(); ++rank) {
      Rank& one = at(rank);
      EngineOptions options;
      options.on_loss = [&one](int lost, bool) { one.losses.push_back(lost); };
      auto epoch = Epoch::open(
          std::move(wirings.value()[static_cast<std::size_t>(rank)]), one.table, options,
          {one.submission, one.completion, one.timeline, [&one] { ++one.frozen; }});
      ASSERT_TRUE(epoch.is_ok()) << epoch.status().message();
      one.epoch = std::move(epoch).value();
    }
  }

  int size() const { return static_cast<int>(ranks_.size()); }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Epoch& epoch(int rank) { return *at(rank).epoch; }

  /// An allreduce of no use, queued on one rank.
  PendingPtr submit(int rank, std::string name) {
    Request request;
    request.name = std::move(name);
    request.operation = Allreduce{};
    request.tensors.push_back(
        {.input = memory_, .output = memory_, .dtype = DataType::kFloat32, .shape = {2}});
    EXPECT_TRUE(epoch(rank).sets().enter(request).is_ok());
    PendingPtr pending = at(rank).completion.add(std::move(request));
    at(rank).submission.push(pending);
    return pending;
  }

  bool step(int rank) {
    Epoch& one = epoch(rank);
    Lock lock(one.progress());
    return one.step();
  }
  /// Steps all ranks until nothing moves any more: what one rank says in a quiet step of its own
  /// may move another a round later.
  void run() {
    for (int quiet_rounds = 0; quiet_rounds < 4; ++quiet_rounds) {
      for (int rank = 0; rank < size(); ++rank) {
        if (step(rank)) quiet_rounds = 0;
      }
    }
  }

 private:
  std::vector<int> node_sizes_;
  std::deque<Rank> ranks_;
  float memory_[2] = {};
};

}  // namespace hvd
