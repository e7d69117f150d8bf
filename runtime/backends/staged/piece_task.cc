// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "backends/staged/staged_task.h"
#include "collective/identity.h"

namespace hvd {
namespace {

/// Elements of the batch, taken as one flat tensor, that go through one chunk.
struct Piece {
  std::size_t segment = 0;  ///< Where it begins.
  std::size_t offset = 0;   ///< ... and how many elements into that.
  std::size_t count = 0;
};

/// Equal on every rank: shapes are.
std::vector<Piece> cut(const Batch& batch) {
  const std::size_t most = Staging::kChunkBytes / size_of(batch.dtype);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < batch.segments.size(); ++i) {
    for (std::size_t offset = 0; offset < batch.segments[i].count;) {
      if (pieces.empty() || pieces.back().count == most) pieces.push_back({i, offset, 0});
      Piece& piece = pieces.back();
      const std::size_t taken = std::min(most - piece.count, batch.segments[i].count - offset);
      piece.count += taken;
      offset += taken;
    }
  }
  return pieces;
}

class PieceTask final : public Task {
 public:
  PieceTask(Staging& staging, const Communicator& communicator, Batch batch)
      : staging_(staging), batch_(std::move(batch)), pieces_(cut(batch_)) {
    const auto root = root_of(batch_.operation);
    const bool is_root = root == communicator.rank;
    const bool broadcasts = std::holds_alternative<Broadcast>(batch_.operation);
    copies_in_ = !broadcasts || is_root;
    copies_out_ = broadcasts ? !is_root : !root || is_root;
    root_copies_out_ = broadcasts && is_root;
  }

  Status start(const StartOnHost& start_on_host) {
    first_ = staging_.take_chunks(pieces_.size());
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      std::byte* const memory = staging_.chunk(first_ + i);
      Batch piece;
      piece.operation = batch_.operation;
      piece.dtype = batch_.dtype;
      piece.segments.push_back({memory, memory, pieces_[i].count, 1});
      HVD_TRY_ASSIGN(auto task, start_on_host(std::move(piece)));
      on_host_.push_back(std::move(task));
    }
    return Status::ok();
  }

  Progress advance() override {
    if (end_) return advance_end();
    bool moved = false;
    if (filled_.size() < pieces_.size() && staging_.may_fill(first_ + filled_.size())) {
      if (Status status = fill(); !status.is_ok()) return fail(std::move(status));
      moved = true;
    }
    if (is_current_here()) {
      if (!current().status.is_ok()) return fail(current().status);
      const Progress progress = on_host_[emptied_]->advance();
      if (progress == Progress::kFailed) return fail(on_host_[emptied_]->status());
      moved = moved || progress != Progress::kBlocked;
      if (progress == Progress::kDone) {
        if (Status status = empty(); !status.is_ok()) return fail(std::move(status));
      }
    }
    if (emptied_ < pieces_.size()) return moved ? Progress::kMoved : Progress::kBlocked;
    auto end = staging_.end_of_copies_to_device();
    if (!end.is_ok()) return fail(end.status());
    end_ = std::move(end).value();
    return Progress::kEnqueued;
  }
  const Status& status() const override { return status_; }
  GpuEventPtr finish_point() const override { return end_->event; }
  bool needs_polling() const override {
    return !end_ && is_current_here() && on_host_[emptied_]->needs_polling();
  }

 private:
  const Arrival& current() const { return *filled_[emptied_]; }
  /// The piece whose turn it is on the host has come there.
  bool is_current_here() const { return emptied_ < filled_.size() && current().has_come.load(); }
  Progress fail(Status status) {
    status_ = std::move(status);
    return Progress::kFailed;
  }
  Progress advance_end() {
    if (!end_->arrival->has_come.load()) return Progress::kBlocked;
    if (!end_->arrival->status.is_ok()) return fail(end_->arrival->status);
    return Progress::kDone;
  }

  /// Calls `copy(segment, elements before, place in the chunk, bytes)` for each part of a piece.
  template <typename Copy>
  Status for_parts(std::size_t index, Copy&& copy) {
    const std::size_t element = size_of(batch_.dtype);
    const Piece& piece = pieces_[index];
    std::byte* place = staging_.chunk(first_ + index);
    std::size_t offset = piece.offset;
    std::size_t left = piece.count;
    for (std::size_t i = piece.segment; left > 0; ++i, offset = 0) {
      const std::size_t count = std::min(batch_.segments[i].count - offset, left);
      if (count == 0) continue;
      HVD_TRY(copy(batch_.segments[i], offset * element, place, count * element));
      place += count * element;
      left -= count;
    }
    return Status::ok();
  }

  /// Without inputs of this rank as well: the outputs, too, are the framework's until it is ready.
  Status fill() {
    if (filled_.empty()) HVD_TRY(staging_.wait_for(batch_.gpu.ready));
    HVD_TRY(staging_.begin_fill(first_ + filled_.size()));
    const auto copy = [&](const Segment& segment, std::size_t before, std::byte* place,
                          std::size_t bytes) {
      return staging_.gpu().copy(place, static_cast<const std::byte*>(segment.input) + before,
                                 bytes, staging_.to_host());
    };
    if (copies_in_) HVD_TRY(for_parts(filled_.size(), copy));
    HVD_TRY_ASSIGN(auto end, staging_.end_of_copies_to_host());
    filled_.push_back(std::move(end.arrival));
    return Status::ok();
  }

  Status empty() {
    on_host_[emptied_] = nullptr;
    const auto copy = [&](const Segment& segment, std::size_t before, const std::byte* place,
                          std::size_t bytes) {
      const bool is_there = root_copies_out_ && segment.output == segment.input;
      if (is_there || (!copies_out_ && !root_copies_out_)) return Status::ok();
      return staging_.gpu().copy(static_cast<std::byte*>(segment.output) + before, place, bytes,
                                 staging_.to_device());
    };
    HVD_TRY(for_parts(emptied_, copy));
    HVD_TRY_ASSIGN(auto event, staging_.gpu().record(staging_.to_device()));
    staging_.set_emptied(std::move(event));
    ++emptied_;
    return Status::ok();
  }

  Staging& staging_;
  Batch batch_;
  std::vector<Piece> pieces_;
  bool copies_in_ = true;
  bool copies_out_ = true;
  bool root_copies_out_ = false;  ///< Where input and output are not the same.
  std::uint64_t first_ = 0;       ///< Number of the first chunk.
  std::vector<std::unique_ptr<Task>> on_host_;
  std::vector<ArrivalPtr> filled_;
  std::size_t emptied_ = 0;
  std::optional<Staging::End> end_;
  Status status_;
};

/// For a rank without tensors: one piece after the other of what changes nothing.
class NeutralTask final : public Task {
 public:
  explicit NeutralTask(Batch batch) : batch_(std::move(batch)), pieces_(cut(batch_)) {}

  Status start(const StartOnHost& start_on_host) {
    const std::size_t most = pieces_.empty() ? 0 : pieces_.front().count;
    memory_.reset(new (std::nothrow) std::byte[most * size_of(batch_.dtype)]);
    if (memory_ == nullptr) {
      return error(Code::kSystem, "staged: no memory for {} elements of {}", most,
                   name_of(batch_.dtype));
    }
    for (const Piece& piece : pieces_) {
      Batch inner;
      inner.operation = batch_.operation;
      inner.dtype = batch_.dtype;
      inner.segments.push_back({memory_.get(), memory_.get(), piece.count, 1});
      HVD_TRY_ASSIGN(auto task, start_on_host(std::move(inner)));
      on_host_.push_back(std::move(task));
    }
    return Status::ok();
  }

  Progress advance() override {
    if (finished_ == pieces_.size()) return Progress::kDone;
    if (!std::exchange(is_filled_, true)) {
      const Allreduce reduction = reduction_of(batch_.operation).value_or(Allreduce{});
      fill_identity(reduction.op, batch_.dtype, memory_.get(), pieces_[finished_].count);
    }
    Task& current = *on_host_[finished_];
    const Progress progress = current.advance();
    if (progress == Progress::kFailed) status_ = current.status();
    if (progress != Progress::kDone) return progress;
    ++finished_;
    is_filled_ = false;
    return finished_ == pieces_.size() ? Progress::kDone : Progress::kMoved;
  }
  const Status& status() const override { return status_; }
  bool needs_polling() const override {
    return finished_ < pieces_.size() && on_host_[finished_]->needs_polling();
  }

 private:
  Batch batch_;
  std::vector<Piece> pieces_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<std::unique_ptr<Task>> on_host_;
  std::size_t finished_ = 0;
  bool is_filled_ = false;
  Status status_;
};

}  // namespace

Result<std::unique_ptr<Task>> start_pieces(Staging* staging, const Communicator& communicator,
                                           const StartOnHost& start_on_host, Batch batch) {
  if (staging == nullptr) {
    auto task = std::make_unique<NeutralTask>(std::move(batch));
    HVD_TRY(task->start(start_on_host));
    return std::unique_ptr<Task>(std::move(task));
  }
  auto task = std::make_unique<PieceTask>(*staging, communicator, std::move(batch));
  HVD_TRY(task->start(start_on_host));
  return std::unique_ptr<Task>(std::move(task));
}

}  // namespace hvd
