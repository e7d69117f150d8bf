// SPDX-License-Identifier: Apache-2.0
#include "backends/lanes/lane_reduce_task.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/node/reduce_stream.h"
#include "base/rounding.h"

namespace hvd {
namespace {

using Move = NodeSchedule::Move;
using Step = NodeSchedule::Step;

constexpr std::uint64_t kWindow = NodePlane::kSlots;
constexpr std::size_t kTaskLine = 64;

std::size_t forced_piece(const LaneReducePlan& plan) {
  const std::size_t elements =
      std::accumulate(plan.part_elements.begin(), plan.part_elements.end(), std::size_t{0});
  return elements * plan.reduction.element_bytes();
}

class LaneReduceTask : public Task, private FrameSink {
 public:
  LaneReduceTask(NodePlane& plane, LaneSet& lanes, LaneReducePlan plan)
      : plane_(plane),
        lanes_(lanes),
        batch_(std::move(plan.batch)),
        reduction_(plan.reduction),
        schedule_(std::move(plan.schedule)),
        part_elements_(plan.part_elements),
        stream_(plane, batch_, reduction_, plan.owners, forced_piece(plan)),
        ticket_(plane.take_ticket()),
        may_send_inputs_(lanes.takes_tensors() && brings_elements_as_they_are()) {}

  ~LaneReduceTask() override {
    if (finished_) return;
    lanes_.forget();
    plane_.abandon();
  }

  Progress advance() override {
    if (!plane_.is_at_head(ticket_)) return Progress::kBlocked;
    if (!begun_) begin();
    bool moved = false;
    if (stream_.is_owner()) {
      auto pumped = lanes_.pump(*this);
      if (!pumped.is_ok()) {
        status_ = pumped.status();
        return Progress::kFailed;
      }
      moved = pumped.value();
      moved = try_complete() || moved;
      moved = try_steps() || moved;
    }
    moved = stream_.try_copy_out() || moved;
    moved = (stream_.is_owner() && try_start()) || moved;
    moved = stream_.try_copy_in() || moved;
    if (!stream_.is_done()) return moved ? Progress::kMoved : Progress::kBlocked;
    finished_ = true;
    plane_.finish(ticket_);
    return Progress::kDone;
  }
  const Status& status() const override { return status_; }

 private:
  /// True when a rank's elements are its partial results, and no step folds into them.
  bool brings_elements_as_they_are() const {
    if (reduction_.partial_bytes() != element() || reduction_.prescale != 1.0) return false;
    return std::all_of(schedule_.steps.begin(), schedule_.steps.end(), [&](const Step& step) {
      return step.of_results || step.receives.empty() || folds_elsewhere(step);
    });
  }

  void begin() {
    begun_ = true;
    stream_.begin();
    transfer_ = lanes_.take_transfer();
    if (!stream_.is_owner()) return;
    const std::size_t theirs = place_arrivals();
    const std::size_t piece = stream_.piece_bytes();
    const std::size_t partial = piece / reduction_.element_bytes() * reduction_.partial_bytes();
    for (std::uint64_t i = 0; i < kWindow; ++i) {
      LaneRound& round = lanes_.round(i);
      if (round.own.size() < partial) round.own.resize(partial);
      if (round.theirs.size() < theirs) round.theirs.resize(theirs);
      if (round.result.size() < piece) round.result.resize(piece);
      round.arrived.assign(schedule_.steps.size(), 0);
      round.step = round.unsent = 0;
    }
  }

  /// Where in `theirs` each step's partial results arrive: a peer may be steps ahead of me, so no
  /// two share a place. Returns the bytes that they take together.
  std::size_t place_arrivals() {
    std::size_t offset = 0;
    for (const Step& step : schedule_.steps) {
      arrivals_.push_back(offset);
      if (step.of_results || step.receives.empty()) continue;
      const Move& move = step.receives.front();
      // Rounds at the end are shorter, and their parts may be cut elsewhere by one element.
      stride_.resize(arrivals_.size());
      const std::size_t elements = elements_of(move, stream_.piece_bytes() / element()) + 1;
      stride_.back() = round_up(elements * reduction_.partial_bytes(), kTaskLine);
      offset += stride_.back() * step.receives.size();
    }
    stride_.resize(arrivals_.size());
    return offset;
  }

  std::size_t element() const { return reduction_.element_bytes(); }
  std::size_t elements(std::uint64_t round) const { return stream_.own_bytes(round) / element(); }
  /// First element of a part of a piece that has `count` of them.
  std::size_t part_begin(std::size_t part, std::size_t count) const {
    if (part_elements_.empty()) return count * part / schedule_.parts;
    if (count == 0) return 0;
    return std::accumulate(part_elements_.begin(),
                           part_elements_.begin() + static_cast<std::ptrdiff_t>(part),
                           std::size_t{0});
  }
  std::size_t elements_of(const Move& move, std::size_t count) const {
    return part_begin(move.last, count) - part_begin(move.first, count);
  }

  Result<std::optional<std::byte*>> place(int node, const FrameHeader& header) override {
    if (header.transfer > transfer_) return std::optional<std::byte*>();
    const std::uint64_t number = header.round / schedule_.steps.size();
    const std::size_t index = header.round % schedule_.steps.size();
    if (header.transfer < transfer_ || number >= stream_.rounds() || number < completed_) {
      return error(Code::kInternal, "transfer {} round {} is under way", transfer_, completed_);
    }
    if (number >= completed_ + kWindow) return std::optional<std::byte*>();
    const Step& step = schedule_.steps[index];
    const auto move = std::find_if(step.receives.begin(), step.receives.end(),
                                   [node](const Move& due) { return due.node == node; });
    const auto kind = step.of_results ? FrameHeader::kResult : FrameHeader::kPartial;
    const std::size_t size = step.of_results ? element() : reduction_.partial_bytes();
    if (move == step.receives.end() || header.kind != kind ||
        header.bytes != elements_of(*move, elements(number)) * size) {
      return error(Code::kInternal, "step {} of {} expects no such kind, node or length", index,
                   schedule_.steps.size());
    }
    LaneRound& round = lanes_.round(number);
    if (step.of_results) {
      if (number >= stream_.reduced()) {
        return error(Code::kInternal, "the results of round {} come before its elements", number);
      }
      return std::optional(round.results + part_begin(move->first, elements(number)) * size);
    }
    return std::optional(
        arrival(round, index, static_cast<std::size_t>(move - step.receives.begin())));
  }

  std::byte* arrival(LaneRound& round, std::size_t step, std::size_t receive) const {
    return round.theirs.data() + arrivals_[step] + receive * stride_[step];
  }

  void arrived(int /*node*/, const FrameHeader& header) override {
    ++lanes_.round(header.round / schedule_.steps.size())
          .arrived[header.round % schedule_.steps.size()];
  }

  bool try_start() {
    const std::uint64_t number = stream_.reduced();
    if (number == stream_.rounds() || number >= completed_ + kWindow) return false;
    LaneRound& round = lanes_.round(number);
    std::byte* const input = may_send_inputs_ ? stream_.input_in_place(number) : nullptr;
    if (!stream_.try_reduce_partial(input == nullptr ? round.own.data() : nullptr)) return false;
    round.partials = input == nullptr ? round.own.data() : input;
    std::byte* const output = lanes_.takes_tensors() ? stream_.output_in_place(number) : nullptr;
    round.results = output == nullptr ? round.result.data() : output;
    round.step = elements(number) > 0 ? 0 : schedule_.steps.size();
    send(number);
    return true;
  }

  /// What the step that begins sends.
  void send(std::uint64_t number) {
    LaneRound& round = lanes_.round(number);
    if (round.step == schedule_.steps.size()) return;
    const Step& step = schedule_.steps[round.step];
    const std::size_t size = step.of_results ? element() : reduction_.partial_bytes();
    const std::byte* const from = step.of_results ? round.results : round.partials;
    for (const Move& move : step.sends) {
      const std::size_t begin = part_begin(move.first, elements(number)) * size;
      lanes_.queue(move.node,
                   {.kind = step.of_results ? FrameHeader::kResult : FrameHeader::kPartial,
                    .transfer = transfer_,
                    .round = number * schedule_.steps.size() + round.step},
                   {from + begin, elements_of(move, elements(number)) * size}, &round.unsent);
    }
  }

  bool try_steps() {
    bool moved = false;
    for (std::uint64_t number = completed_; number < stream_.reduced(); ++number) {
      moved = try_step(number) || moved;
    }
    return moved;
  }

  bool try_step(std::uint64_t number) {
    LaneRound& round = lanes_.round(number);
    if (round.step == schedule_.steps.size()) return false;
    const Step& step = schedule_.steps[round.step];
    if (round.arrived[round.step] < step.receives.size()) return false;
    if (!step.of_results && !step.receives.empty()) {
      if (round.unsent > 0 && folds_over_what_it_sends(round, step)) return false;
      fold(number, step);
    }
    round.arrived[round.step] = 0;
    ++round.step;
    send(number);
    return true;
  }

  /// A last pair, and what is folded at once; all others are folded where my partial results are.
  bool folds_elsewhere(const Step& step) const {
    return step.finishes && (step.receives.size() == 1 || at_once());
  }

  /// My own partial results may be on their way still. An operation in place folds over them, too.
  bool folds_over_what_it_sends(const LaneRound& round, const Step& step) const {
    if (folds_elsewhere(step) && round.results != round.partials) return false;
    const Move& folded = step.receives.front();
    return std::any_of(step.sends.begin(), step.sends.end(), [&](const Move& sent) {
      return sent.first < folded.last && folded.first < sent.last;
    });
  }

  // Narrow partial results would be rounded at every level of a tree.
  bool at_once() const { return reduction_.narrow_partials; }

  void fold(std::uint64_t number, const Step& step) {
    LaneRound& round = lanes_.round(number);
    const std::size_t begin = part_begin(step.receives.front().first, elements(number));
    const std::size_t count = elements_of(step.receives.front(), elements(number));
    operands_.clear();
    for (std::size_t i = 0; i < step.receives.size(); ++i) {
      operands_.push_back(arrival(round, round.step, i));
    }
    std::byte* const own = round.partials + begin * reduction_.partial_bytes();
    operands_.insert(operands_.begin() + static_cast<std::ptrdiff_t>(step.own_at), own);
    if (!step.finishes) {
      const void* const both[] = {operands_[0], operands_[1]};
      reduce_into(reduction_, ReduceStage::kCombine, own, both, count);
      return;
    }
    std::byte* const result = round.results + begin * element();
    if (at_once()) {
      sources_.assign(operands_.begin(), operands_.end());
    } else {
      // The last two halves of the tree are finished in one pass.
      const std::span<std::byte* const> all = operands_;
      const std::size_t half = half_of(all.size());
      sources_ = {fold_tree(all.first(half), count), fold_tree(all.subspan(half), count)};
    }
    reduce_into(reduction_, ReduceStage::kFinish, result, sources_, count);
  }

  /// The largest power of two below `nodes`.
  static std::size_t half_of(std::size_t nodes) {
    std::size_t half = 1;
    while (half * 2 < nodes) half *= 2;
    return half;
  }

  /// Folds partial results into the first of them.
  std::byte* fold_tree(std::span<std::byte* const> partials, std::size_t count) const {
    if (partials.size() == 1) return partials[0];
    const std::size_t half = half_of(partials.size());
    const void* const sources[] = {fold_tree(partials.first(half), count),
                                   fold_tree(partials.subspan(half), count)};
    reduce_into(reduction_, ReduceStage::kCombine, partials[0], sources, count);
    return partials[0];
  }

  bool try_complete() {
    if (completed_ == stream_.reduced()) return false;
    LaneRound& round = lanes_.round(completed_);
    if (round.step < schedule_.steps.size() || round.unsent > 0) return false;
    // What lies where it belongs is not copied there.
    const std::size_t count = round.results == round.result.data() ? elements(completed_) : 0;
    stream_.give_result(round.result.data(), part_begin(schedule_.known_first, count) * element(),
                        part_begin(schedule_.known_last, count) * element());
    ++completed_;
    return true;
  }

  NodePlane& plane_;
  LaneSet& lanes_;
  Batch batch_;
  Reduction reduction_;
  NodeSchedule schedule_;
  std::vector<std::size_t> part_elements_;
  ReduceStream stream_;
  std::uint64_t ticket_;
  bool may_send_inputs_;  ///< Where they lie.
  std::uint64_t transfer_ = 0;
  std::vector<std::size_t> arrivals_;  // by step: where in `theirs`
  std::vector<std::size_t> stride_;    // ... and how far apart
  std::vector<std::byte*> operands_;
  std::vector<const void*> sources_;
  std::uint64_t completed_ = 0;  // rounds whose whole result is known
  bool begun_ = false;
  bool finished_ = false;
  Status status_;
};

}  // namespace

std::unique_ptr<Task> make_lane_reduce_task(NodePlane& plane, LaneSet& lanes, LaneReducePlan plan) {
  return std::make_unique<LaneReduceTask>(plane, lanes, std::move(plan));
}

}  // namespace hvd
