// SPDX-License-Identifier: Apache-2.0
#include "backends/lanes/lane_reduce_task.h"

#include "backends/shm/reduce_stream.h"

namespace hvd {
namespace {

// Up to here one step between the nodes beats two that carry less.
constexpr std::size_t kDirectBytes = std::size_t{16} << 10;
constexpr std::uint64_t kWindow = NodePlane::kSlots;

bool is_small(const Batch& batch, const Reduction& reduction) {
  return batch.total_count() * reduction.element_bytes() <= kDirectBytes;
}

class LaneReduceTask : public Task, private FrameSink {
 public:
  LaneReduceTask(NodePlane& plane, LaneSet& lanes, Batch batch, const Reduction& reduction)
      : plane_(plane),
        lanes_(lanes),
        batch_(std::move(batch)),
        reduction_(reduction),
        nodes_(static_cast<std::size_t>(lanes.node_count())),
        direct_(is_small(batch_, reduction_) || nodes_ == 2),
        stream_(plane, batch_, reduction, is_small(batch_, reduction_) ? 1 : lanes.lanes()),
        ticket_(plane.take_ticket()) {}

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
      moved = pumped.value() || try_complete() || try_fold();
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
  void begin() {
    begun_ = true;
    stream_.begin();
    transfer_ = lanes_.take_transfer();
    if (!stream_.is_owner()) return;
    const std::size_t piece = stream_.piece_bytes();
    const std::size_t partial = piece / reduction_.element_bytes() * reduction_.partial_bytes();
    for (std::uint64_t i = 0; i < kWindow; ++i) {
      LaneRound& round = lanes_.round(i);
      if (round.own.size() < partial) round.own.resize(partial);
      // A whole partial per node where it is sent whole; else slices, which add up to one.
      const std::size_t wanted = direct_ ? partial * nodes_ : partial + nodes_ * 64;
      if (round.theirs.size() < wanted) round.theirs.resize(wanted);
      if (round.result.size() < piece) round.result.resize(piece);
      round.partials_arrived = round.results_arrived = round.unsent = 0;
    }
  }

  std::size_t elements(std::uint64_t round) const {
    return stream_.own_bytes(round) / reduction_.element_bytes();
  }
  /// First element of the slice of `node`, or of what stands in for it when all is sent whole.
  std::size_t slice_begin(std::uint64_t round, std::size_t node) const {
    return elements(round) * node / nodes_;
  }
  std::size_t slice_elements(std::uint64_t round, std::size_t node) const {
    return slice_begin(round, node + 1) - slice_begin(round, node);
  }
  std::size_t my_node() const { return static_cast<std::size_t>(lanes_.node()); }

  /// Elements of a partial that I receive, and where the part from `node` begins.
  std::size_t expected_elements(std::uint64_t round) const {
    return direct_ ? elements(round) : slice_elements(round, my_node());
  }
  std::byte* theirs(std::uint64_t round, std::size_t node) {
    return lanes_.round(round).theirs.data() +
           node * expected_elements(round) * reduction_.partial_bytes();
  }

  Result<std::optional<std::byte*>> place(int node, const FrameHeader& header) override {
    if (header.transfer > transfer_) return std::optional<std::byte*>();
    if (header.transfer < transfer_ || header.round >= stream_.rounds() ||
        header.round < completed_) {
      return error(Code::kInternal, "transfer {} round {} is under way", transfer_, completed_);
    }
    if (header.round >= completed_ + kWindow) return std::optional<std::byte*>();
    const auto from = static_cast<std::size_t>(node);
    if (header.kind == FrameHeader::kPartial &&
        header.bytes == expected_elements(header.round) * reduction_.partial_bytes()) {
      return std::optional(theirs(header.round, from));
    }
    const std::size_t element = reduction_.element_bytes();
    if (header.kind == FrameHeader::kResult && !direct_ &&
        header.bytes == slice_elements(header.round, from) * element) {
      return std::optional(lanes_.round(header.round).result.data() +
                           slice_begin(header.round, from) * element);
    }
    return error(Code::kInternal, "the allreduce of {} bytes expects no such kind or length",
                 batch_.total_count() * element);
  }

  void arrived(int /*node*/, const FrameHeader& header) override {
    LaneRound& round = lanes_.round(header.round);
    ++(header.kind == FrameHeader::kPartial ? round.partials_arrived : round.results_arrived);
  }

  void send(FrameHeader::Kind kind, std::uint64_t number, int node,
            std::span<const std::byte> payload) {
    lanes_.queue(node, {.kind = kind, .transfer = transfer_, .round = number}, payload,
                 &lanes_.round(number).unsent);
  }

  bool try_start() {
    const std::uint64_t number = stream_.reduced();
    if (number == stream_.rounds() || number >= completed_ + kWindow) return false;
    LaneRound& round = lanes_.round(number);
    if (!stream_.try_reduce_partial(round.own.data())) return false;
    if (elements(number) == 0) return true;
    const std::size_t partial = reduction_.partial_bytes();
    for (int node = 0; node < lanes_.node_count(); ++node) {
      if (node == lanes_.node()) continue;
      const auto to = static_cast<std::size_t>(node);
      const std::size_t begin = direct_ ? 0 : slice_begin(number, to);
      const std::size_t count = direct_ ? elements(number) : slice_elements(number, to);
      send(FrameHeader::kPartial, number, node,
           std::span(round.own).subspan(begin * partial, count * partial));
    }
    return true;
  }

  /// Folds the partial results of nodes [lo, hi) into those of `lo`.
  void fold_nodes(std::span<std::byte* const> partials, std::size_t count) {
    if (partials.size() == 1) return;
    std::size_t half = 1;
    while (half * 2 < partials.size()) half *= 2;
    fold_nodes(partials.first(half), count);
    fold_nodes(partials.subspan(half), count);
    const void* const sources[] = {partials[0], partials[half]};
    reduce_into(reduction_, ReduceStage::kCombine, partials[0], sources, count);
  }

  bool try_fold() {
    if (folded_ == stream_.reduced()) return false;
    LaneRound& round = lanes_.round(folded_);
    if (elements(folded_) > 0) {
      // The fold may overwrite my own partial results, so they must have left if sent whole.
      if (round.partials_arrived + 1 < nodes_ || (direct_ && round.unsent > 0)) return false;
      fold_round(round);
    }
    ++folded_;
    return true;
  }

  void fold_round(LaneRound& round) {
    const std::size_t count = expected_elements(folded_);
    const std::size_t begin = direct_ ? 0 : slice_begin(folded_, my_node());
    std::vector<std::byte*> partials(nodes_);
    for (std::size_t node = 0; node < nodes_; ++node) partials[node] = theirs(folded_, node);
    partials[my_node()] = round.own.data() + begin * reduction_.partial_bytes();
    const std::size_t element = reduction_.element_bytes();
    std::byte* result = round.result.data() + begin * element;
    // Narrow partial results would be rounded at every level of a tree.
    if (!reduction_.narrow_partials) {
      fold_nodes(partials, count);
      partials.resize(1);
    }
    const std::vector<const void*> sources(partials.begin(), partials.end());
    reduce_into(reduction_, ReduceStage::kFinish, result, sources, count);
    if (direct_) return;
    for (int node = 0; node < lanes_.node_count(); ++node) {
      if (node != lanes_.node()) {
        send(FrameHeader::kResult, folded_, node, {result, count * element});
      }
    }
  }

  bool try_complete() {
    if (completed_ == folded_) return false;
    LaneRound& round = lanes_.round(completed_);
    if (round.unsent > 0) return false;
    const bool results_due = !direct_ && elements(completed_) > 0;
    if (results_due && round.results_arrived + 1 < nodes_) return false;
    stream_.give_result(round.result.data());
    round.partials_arrived = round.results_arrived = 0;
    ++completed_;
    return true;
  }

  NodePlane& plane_;
  LaneSet& lanes_;
  Batch batch_;
  Reduction reduction_;
  std::size_t nodes_;
  bool direct_;
  ReduceStream stream_;
  std::uint64_t ticket_;
  std::uint64_t transfer_ = 0;
  std::uint64_t folded_ = 0;     // rounds whose partial results are folded here
  std::uint64_t completed_ = 0;  // rounds whose whole result is known
  bool begun_ = false;
  bool finished_ = false;
  Status status_;
};

}  // namespace

std::unique_ptr<Task> make_lane_reduce_task(NodePlane& plane, LaneSet& lanes, Batch batch,
                                            const Reduction& reduction) {
  return std::make_unique<LaneReduceTask>(plane, lanes, std::move(batch), reduction);
}

}  // namespace hvd
