// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_task.h"

#include <array>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "backends/nccl/nccl_launch.h"
#include "backends/nccl/told_by_all.h"
#include "base/log.h"
#include "collective/moving_counts.h"

namespace hvd {
namespace {

/// All ranks have the batch; others may still have to wait for another set that connects (which has
/// a limit of its own), or for what their device does.
constexpr std::chrono::minutes kBucketTime{10};
/// So long a group of calls is looked at without a pause: NCCL's thread takes it up in less, and a
/// sleep and a wake-up would cost as much again.
constexpr std::chrono::microseconds kGroupSpin{150};

class NcclTask : public Task {
 public:
  NcclTask(NcclSession& session, Batch batch)
      : session_(session),
        batch_(std::move(batch)),
        tensors_(batch_.segments.size()),
        outputs_(tensors_),
        ticket_(session.take_ticket()) {}
  ~NcclTask() override {
    if (stage_ != Stage::kDone) session_.give_up();
  }

  /// From start() only.
  Status tell_counts() {
    if (!needs_counts(batch_.operation)) return Status::ok();
    const Communicator& communicator = session_.context().communicator;
    counts_.emplace(batch_, communicator);
    const std::size_t* const mine = counts_->row(static_cast<std::size_t>(communicator.rank));
    HVD_TRY_ASSIGN(told_, ToldByAll::start(session_.context(),
                                           std::as_bytes(std::span(mine, counts_->row_length()))));
    return Status::ok();
  }

  Progress advance() override {
    if (session_.is_given_up()) return fail(NcclSession::given_up());
    const CurrentGpu current(session_.gpu());
    if (!current.status().is_ok()) return fail(current.status());
    report_if_stalled();
    switch (stage_) {
      case Stage::kCounts:
        return learn_counts();
      case Stage::kTurn:
        return take_turn();
      case Stage::kMemory:
        return take_memory();
      case Stage::kBucket:
        return await_bucket();
      case Stage::kGroup:
        return settle([this] { return end_round(); });
      case Stage::kDevice:
        return watch_device();
      case Stage::kDoubt:
        return doubted_until_.has_passed() ? Progress::kFailed : Progress::kBlocked;
      case Stage::kDone:
        break;
    }
    return Progress::kDone;
  }
  const Status& status() const override { return status_; }
  GpuEventPtr finish_point() const override { return finish_point_; }
  bool needs_polling() const override {
    if (stage_ == Stage::kCounts) return told_ != nullptr && told_->needs_polling();
    return stage_ == Stage::kMemory || stage_ == Stage::kBucket || stage_ == Stage::kGroup ||
           stage_ == Stage::kDoubt;
  }

 private:
  enum class Stage {
    kCounts,  ///< Ranks tell each other theirs.
    kTurn,    ///< Streams do not hold all batches before it yet.
    kMemory,  ///< The device still uses what the bucket was before.
    kBucket,  ///< The bucket grows.
    kGroup,   ///< NCCL takes the calls up.
    kDevice,  ///< All is in the stream.
    kDoubt,   ///< It has failed, and the host may know of a lost rank in a moment.
    kDone,
  };

  Progress fail(Status status) {
    status_ = std::move(status);
    return Progress::kFailed;
  }
  /// What failed in NCCL: where that may be due to a rank that is lost, whoever hears of the loss
  /// ends the epoch with its name before this does.
  Progress doubt(const Status& failure) {
    if (failure.code() != Code::kSystem) return fail(failure);
    status_ = session_.in_doubt(failure);
    stage_ = Stage::kDoubt;
    doubted_until_ = Deadline::after(kDoubtTime);
    return Progress::kBlocked;
  }
  /// Once the communicator has settled, what comes next.
  template <typename Next>
  Progress settle(const Next& next) {
    const auto settled = session_.communicator().is_settled();
    if (!settled.is_ok()) {
      return doubt(stage_ == Stage::kBucket ? without_registration(settled.status())
                                            : settled.status());
    }
    return settled.value() ? next() : Progress::kBlocked;
  }

  Progress learn_counts() {
    if (told_ != nullptr) {
      const Progress progress = told_->advance();
      if (progress == Progress::kFailed) return fail(told_->status());
      if (progress != Progress::kDone) return progress;
      std::memcpy(counts_->row(0), told_->all().data(), told_->all().size());
      told_.reset();
    }
    stage_ = Stage::kTurn;
    return take_turn();
  }

  /// An NCCL that keeps the order refuses launches that race with one another.
  bool is_my_turn() const {
    return session_.nccl_keeps_order() ? batch_.gpu.turn.has_come_of_all()
                                       : batch_.gpu.turn.has_come();
  }

  Progress take_turn() {
    if (!session_.is_at_head(ticket_) || !is_my_turn()) return Progress::kBlocked;
    if (Status status = allocate_outputs(); !status.is_ok()) return fail(std::move(status));
    parts_ = cut_for_bucket(batch_, session_.context().communicator, NcclPlanOptions());
    if (parts_.size() > 1) batch_.gpu.bucket = {};  // which is one of graphs
    return begin_part();
  }

  Progress begin_part() {
    if (parts_.size() > 1) {
      batch_.segments = std::move(parts_[part_]);
      outputs_.clear();
      for (const Segment& segment : batch_.segments) outputs_.push_back(segment.output);
    }
    plan_ = plan_nccl(batch_, session_.context().communicator, counts_ ? &*counts_ : nullptr,
                      NcclPlanOptions());
    stage_ = Stage::kMemory;
    has_bucket_ = false;
    return take_memory();
  }

  Progress take_memory() {
    if (!has_bucket_) {
      const auto taken = session_.bucket().reserve(plan_.bucket_bytes, session_.stream());
      if (!taken.is_ok()) return fail(without_registration(taken.status()));
      if (!taken.value()) return Progress::kBlocked;
      has_bucket_ = true;
    }
    const auto taken = session_.spare().reserve(plan_.spare_bytes, session_.stream());
    if (!taken.is_ok()) return fail(taken.status());
    if (!taken.value()) return Progress::kBlocked;
    stage_ = Stage::kBucket;
    begun_ = Clock::now();
    if (part_ == 0) session_.count_begun();
    return await_bucket();
  }

  Progress await_bucket() {
    const Progress progress = settle([this] { return communicate(); });
    if (stage_ != Stage::kBucket || progress != Progress::kBlocked) return progress;
    if (Clock::now() < begun_ + kBucketTime) return progress;
    return fail(without_registration(Status(Code::kTimeout, session_.describe(stalled()))));
  }

  /// A failure to make the bucket known to NCCL, with what it was and how to do without.
  Status without_registration(const Status& status) const {
    if (!session_.registers() || plan_.bucket_bytes == 0) return status;
    return error(status.code(),
                 "cannot register a bucket of {} bytes: {}; HVD_NCCL_REGISTER=0 on all ranks does "
                 "without, slower",
                 plan_.bucket_bytes, status.message());
  }

  Status allocate_outputs() {
    const auto mine = static_cast<std::size_t>(session_.context().communicator.rank);
    const auto size = static_cast<std::size_t>(session_.context().communicator.size);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const Segment& segment = batch_.segments[i];
      outputs_[i] = segment.output;
      std::vector<std::size_t> from;
      if (counts_) {
        for (std::size_t rank = 0; rank < size; ++rank) from.push_back(counts_->at(rank, i, mine));
      } else if (std::holds_alternative<Reducescatter>(batch_.operation) &&
                 segment.output == nullptr) {
        const std::size_t rows = segment.row_count == 0 ? 0 : segment.count / segment.row_count;
        from.push_back((first_row_of(rows, size, mine + 1) - first_row_of(rows, size, mine)) *
                       segment.row_count);
      }
      if (from.empty()) continue;
      HVD_TRY_ASSIGN(outputs_[i], batch_.allocate(i, from));
    }
    return Status::ok();
  }

  NcclLaunch launch() const { return {session_, plan_, batch_, outputs_}; }

  Status pack() {
    if (part_ == 0) HVD_TRY(launch().wait_for_inputs());
    if (session_.graphs() != nullptr && batch_.gpu.bucket.schedule != 0) {
      graphs_ = session_.graphs()->find(batch_.gpu.bucket, launch().shape());
    }
    const bool has_launches =
        !plan_.packed.empty() || !plan_.filled.empty() || !plan_.filled_spare.empty();
    if (graphs_ == nullptr || !has_launches) return launch().pack();
    return session_.graphs()->run(*graphs_, NcclHalf::kPack, [this] { return launch().pack(); });
  }
  Status unpack() {
    const bool has_launches = !plan_.unpacked.empty() || !plan_.scaled.empty();
    if (graphs_ == nullptr || !has_launches) return launch().unpack();
    return session_.graphs()->run(*graphs_, NcclHalf::kUnpack,
                                  [this] { return launch().unpack(); });
  }

  Progress communicate() {
    if (Status status = pack(); !status.is_ok()) return fail(std::move(status));
    if (part_ == 0) {
      if (Status status = launch().wait_for_turn(); !status.is_ok()) return fail(std::move(status));
    }
    return begin_round();
  }

  /// One group of calls, except for Adasum.
  Progress begin_round() {
    const auto& rounds = plan_.adasum.rounds;
    const Status status = launch().communicate(rounds.empty() ? plan_.steps : rounds[round_].steps);
    if (!status.is_ok()) return doubt(status);
    stage_ = Stage::kGroup;
    const Deadline spins = Deadline::after(kGroupSpin);
    for (;;) {
      const Progress progress = settle([this] { return end_round(); });
      const bool waits = progress == Progress::kBlocked && stage_ == Stage::kGroup;
      if (!waits || spins.has_passed()) return progress;
      std::this_thread::yield();
    }
  }

  Progress end_round() {
    const auto& rounds = plan_.adasum.rounds;
    if (rounds.empty()) return end_part();
    if (Status status = launch().calculate(rounds[round_]); !status.is_ok()) {
      return fail(std::move(status));
    }
    return ++round_ == rounds.size() ? end_part() : begin_round();
  }

  Progress end_part() {
    if (Status status = unpack(); !status.is_ok()) return fail(std::move(status));
    return ++part_ < parts_.size() ? begin_part() : finish();
  }

  Progress finish() {
    auto event = session_.gpu().record(session_.stream());
    if (!event.is_ok()) return fail(event.status());
    finish_point_ = std::move(event).value();
    arrival_ = session_.watch(finish_point_);
    session_.pass_on();
    batch_.gpu.turn.pass_on(finish_point_);
    stage_ = Stage::kDevice;
    return Progress::kEnqueued;
  }

  void report_if_stalled() {
    const auto patience = session_.context().gpu.stall_warning;
    const bool waits =
        stage_ == Stage::kBucket || stage_ == Stage::kGroup || stage_ == Stage::kDevice;
    if (!waits || is_reported_ || patience.count() == 0) return;
    if (Clock::now() < begun_ + patience) return;
    is_reported_ = true;
    session_.report(stalled());
  }

  StalledBatch stalled() const {
    auto stage = StalledBatch::Stage::kGroup;
    if (stage_ == Stage::kBucket) stage = StalledBatch::Stage::kBucket;
    if (stage_ == Stage::kDevice) stage = StalledBatch::Stage::kLaunched;
    return {.number = ticket_,
            .what = format_text("{} of {} {} tensors", describe(batch_.operation), tensors_,
                                name_of(batch_.dtype)),
            .stage = stage,
            .time = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begun_)};
  }

  Progress watch_device() {
    if (arrival_->is_here.load()) {
      if (!arrival_->status.is_ok()) return fail(arrival_->status);
      stage_ = Stage::kDone;
      return Progress::kDone;
    }
    return settle([] { return Progress::kBlocked; });
  }

  NcclSession& session_;
  Batch batch_;  ///< With the tensors of a part.
  const std::size_t tensors_;
  std::vector<void*> outputs_;
  std::uint64_t ticket_;
  std::optional<MovingCounts> counts_;
  std::unique_ptr<ToldByAll> told_;
  std::vector<std::vector<Segment>> parts_;
  std::size_t part_ = 0;
  NcclPlan plan_;  ///< Of the part.
  bool has_bucket_ = false;
  FrozenGraphs* graphs_ = nullptr;  ///< While this is at the head.
  Stage stage_ = Stage::kCounts;
  std::size_t round_ = 0;
  Clock::time_point begun_;
  bool is_reported_ = false;
  Deadline doubted_until_ = kForever;
  GpuEventPtr finish_point_;
  std::shared_ptr<NcclSession::Arrival> arrival_;
  Status status_;
};

}  // namespace

Result<std::unique_ptr<Task>> start_nccl_task(NcclSession& session, Batch batch) {
  auto task = std::make_unique<NcclTask>(session, std::move(batch));
  HVD_TRY(task->tell_counts());
  return std::unique_ptr<Task>(std::move(task));
}

}  // namespace hvd
