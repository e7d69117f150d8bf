// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/reduction.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace hvd {
namespace {

/// Says what it is told to say.
class PlannedTask : public Task {
 public:
  explicit PlannedTask(const Progress& progress, Status status = {})
      : progress_(progress), status_(std::move(status)) {}
  Progress advance() override { return progress_; }
  const Status& status() const override { return status_; }
  bool needs_polling() const override { return true; }

 private:
  const Progress& progress_;
  Status status_;
};

/// Notes the batches that it starts, by the elements of their first tensor.
class PlannedBackend : public Backend {
 public:
  explicit PlannedBackend(std::vector<std::size_t>& started) : started_(started) {}
  PlannedBackend(std::vector<std::size_t>& started, Progress progress)
      : progress(progress), started_(started) {}

  std::string_view name() const override { return "planned"; }
  Status supports(const Operation&, DataType, Device) const override { return Status::ok(); }
  std::string reach() const override { return "everything"; }
  bool reproducible() const override { return true; }
  Result<std::unique_ptr<Task>> start(Batch batch) override {
    started_.push_back(batch.segments.front().count);
    return std::unique_ptr<Task>(std::make_unique<PlannedTask>(progress));
  }
  Result<std::unique_ptr<Task>> prepare(const Batch&) override {
    ++preparations;
    return std::unique_ptr<Task>(std::make_unique<PlannedTask>(preparation, failure));
  }

  void begin_settling() override { ++settlings; }
  bool settle(const std::function<bool(int rank)>&, Deadline) override {
    EXPECT_EQ(settlings, 1) << "before anybody waits";
    ++waits;
    return settles;
  }

  int settlings = 0;
  int waits = 0;
  bool settles = true;
  Progress preparation = Progress::kBlocked;
  Status failure;
  int preparations = 0;
  Progress progress = Progress::kDone;  ///< Of its tasks.

 private:
  std::vector<std::size_t>& started_;
};

/// Two backends that need preparing, in front of none.
struct Plane {
  Plane() {
    std::vector<Reducer::Candidate> candidates(2);
    for (std::size_t i = 0; i < 2; ++i) {
      auto backend = std::make_unique<PlannedBackend>(started[i]);
      backends[i] = backend.get();
      candidates[i].name = i == 0 ? "first" : "second";
      candidates[i].backend = std::move(backend);
    }
    reducer.emplace(std::move(candidates), "");
  }
  void start(std::size_t count) {
    FusedBatch fused;
    fused.batch.segments = {{nullptr, nullptr, count, 1}};
    reducer->start(std::move(fused));
  }

  std::array<std::vector<std::size_t>, 2> started;
  std::array<PlannedBackend*, 2> backends{};
  std::optional<Reducer> reducer;
};

using Counts = std::vector<std::size_t>;

TEST(Reducer, KeepsBatchesInOrderBehindThePreparationOfTheirBackend) {
  Plane plane;
  plane.start(1);
  plane.start(2);
  EXPECT_FALSE(plane.reducer->advance());
  EXPECT_TRUE(plane.started[0].empty());
  EXPECT_EQ(plane.reducer->in_flight(), 2U);
  EXPECT_TRUE(plane.reducer->needs_polling());
  plane.backends[0]->preparation = Progress::kDone;
  EXPECT_TRUE(plane.reducer->advance());
  plane.start(3);
  EXPECT_EQ(plane.started[0], (Counts{1, 2, 3}));
  EXPECT_EQ(plane.backends[0]->preparations, 1);
}

TEST(Reducer, GivesBatchesToTheNextBackendWhereThePreparationDeclines) {
  Plane plane;
  plane.backends[0]->failure = Status(Code::kUnsupported, "no library");
  plane.backends[0]->preparation = Progress::kFailed;
  plane.start(1);
  plane.start(2);
  EXPECT_TRUE(plane.reducer->advance());
  EXPECT_EQ(plane.reducer->in_flight(), 2U);  // now behind the preparation of the second one
  plane.backends[1]->preparation = Progress::kDone;
  EXPECT_TRUE(plane.reducer->advance());
  EXPECT_TRUE(plane.started[0].empty());
  EXPECT_EQ(plane.started[1], (Counts{1, 2}));
  EXPECT_NE(plane.reducer->describe(Allreduce{}, DataType::kFloat32, {}).find("no library"),
            std::string::npos);
}

TEST(Reducer, FailsEveryBatchWhereThePreparationFails) {
  Plane plane;
  plane.backends[0]->failure = Status(Code::kMismatch, "two ranks on one GPU");
  plane.backends[0]->preparation = Progress::kFailed;
  plane.start(1);
  EXPECT_TRUE(plane.reducer->advance());
  plane.start(2);
  const auto finished = plane.reducer->take_finished();
  ASSERT_EQ(finished.size(), 2U);
  for (const Reducer::Finished& one : finished) {
    EXPECT_EQ(one.status.message(), "two ranks on one GPU");
    EXPECT_FALSE(one.started);
  }
  EXPECT_TRUE(plane.started[0].empty() && plane.started[1].empty());
}

TEST(Reducer, TellsTheOtherRanksOfAPreparationThatFailedHereAlone) {
  Plane plane;
  plane.backends[0]->failure = Status(Code::kSystem, "no connection");
  plane.backends[0]->preparation = Progress::kFailed;
  plane.start(1);
  EXPECT_TRUE(plane.reducer->advance());
  const auto finished = plane.reducer->take_finished();
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_TRUE(finished.front().started) << "the others connect";
}

/// What describe() says for CPU and GPU memory, with one backend for each.
std::array<std::string, 2> choices(const std::string& wanted) {
  std::vector<std::size_t> started;
  std::vector<Reducer::Candidate> candidates(2);
  candidates[0].name = "host";
  candidates[1].name = "device";
  candidates[1].on_gpu = true;
  for (auto& candidate : candidates) candidate.backend = std::make_unique<PlannedBackend>(started);
  const Reducer reducer(std::move(candidates), wanted);
  return {reducer.describe(Allreduce{}, DataType::kFloat32, {}),
          reducer.describe(Allreduce{}, DataType::kFloat32, {DeviceKind::kCuda, 0})};
}

TEST(Reducer, ChoosesAmongTheBackendsOfTheMemory) {
  EXPECT_EQ(choices("")[0], "host: everything");
  EXPECT_EQ(choices("")[1], "device: everything");
}

TEST(Reducer, AnswersHvdBackendForItsKindOfMemoryOnly) {
  EXPECT_EQ(choices("host")[0], "host, as HVD_BACKEND asks: everything");
  EXPECT_EQ(choices("host")[1], "device: everything");
  EXPECT_EQ(choices("device")[0], "host: everything");
  EXPECT_EQ(choices("none")[0], "none: HVD_BACKEND=none names no backend of this build");
  EXPECT_EQ(choices("none")[1], "none: HVD_BACKEND=none names no backend of this build");
}

TEST(Reducer, TellsOnceWhatAStreamHoldsAndLaterWhatTheDeviceHasDone) {
  Plane plane;
  plane.backends[0]->preparation = Progress::kDone;
  plane.backends[0]->progress = Progress::kEnqueued;
  plane.start(1);
  plane.reducer->advance();
  EXPECT_EQ(plane.reducer->enqueued(), 1U);
  EXPECT_EQ(plane.reducer->take_enqueued().size(), 1U);
  EXPECT_TRUE(plane.reducer->take_finished().empty());
  plane.backends[0]->progress = Progress::kDone;
  plane.reducer->advance();
  EXPECT_EQ(plane.reducer->enqueued(), 0U);
  EXPECT_EQ(plane.reducer->take_finished().size(), 1U);
  EXPECT_TRUE(plane.reducer->take_enqueued().empty());
}

TEST(Reducer, DropsABatchThatWaitsForAPreparation) {
  Plane plane;
  plane.start(1);
  plane.reducer->give_up();
  EXPECT_EQ(plane.reducer->in_flight(), 0U);
  EXPECT_EQ(plane.backends[0]->settlings + plane.backends[0]->waits, 1);
  EXPECT_TRUE(plane.reducer
                  ->settle(
                      false, [](int) { return true; }, kForever)
                  .is_settled);
}

TEST(Reducer, SettlesOneKindOfMemoryWithoutTheOther) {
  std::vector<std::size_t> started;
  std::vector<Reducer::Candidate> candidates(2);
  std::array<PlannedBackend*, 2> backends{};
  for (std::size_t i = 0; i < 2; ++i) {
    auto backend = std::make_unique<PlannedBackend>(started, Progress::kBlocked);
    backend->preparation = Progress::kDone;
    backends[i] = backend.get();
    candidates[i].name = i == 0 ? "host" : "device";
    candidates[i].on_gpu = i == 1;
    candidates[i].backend = std::move(backend);
  }
  Reducer reducer(std::move(candidates), "");
  std::array<PendingPtr, 2> owners;
  for (std::size_t i = 0; i < 2; ++i) {
    owners[i] = std::make_shared<PendingRequest>();
    FusedBatch fused;
    fused.batch.segments = {{nullptr, nullptr, 1, 1}};
    fused.batch.device.kind = i == 0 ? DeviceKind::kCpu : DeviceKind::kCuda;
    fused.owners = {owners[i]};
    reducer.start(std::move(fused));
    reducer.advance();
  }
  reducer.give_up();
  EXPECT_EQ(backends[0]->settlings + backends[1]->settlings, 2);
  backends[1]->settles = false;
  const auto nobody = [](int) { return false; };
  const Reducer::Abandoned device = reducer.settle(true, nobody, kForever);
  EXPECT_FALSE(device.is_settled);
  EXPECT_EQ(device.owners, std::vector<PendingPtr>{owners[1]});
  EXPECT_EQ(backends[0]->waits, 0);
  const Reducer::Abandoned host = reducer.settle(false, nobody, kForever);
  EXPECT_TRUE(host.is_settled);
  EXPECT_EQ(host.owners, std::vector<PendingPtr>{owners[0]});
  EXPECT_EQ(backends[1]->waits, 1);
}

}  // namespace
}  // namespace hvd
