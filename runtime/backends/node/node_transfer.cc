// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "backends/node/exchange.h"
#include "backends/node/rooted.h"
#include "base/rounding.h"

namespace hvd {
namespace {

constexpr std::size_t kTransferLine = 64;

/// In each round every root copies its next piece into its slot, and everybody copies the pieces of
/// the others out; roots of unequal lengths cut theirs so that all end together.
class NodeTransfer : public Transfer {
 public:
  NodeTransfer(NodePlane& plane, RootedPlan plan)
      : plane_(plane), plan_(std::move(plan)), base_(plane.next_round) {
    std::size_t longest = 0;
    for (const std::size_t bytes : plan_.bytes) longest = std::max(longest, bytes);
    rounds_ = divide_up(longest, NodePlane::piece_bytes(longest));
    pieces_.reserve(plan_.bytes.size());
    for (const std::size_t bytes : plan_.bytes) {
      pieces_.push_back(rounds_ == 0 ? 0 : round_up(divide_up(bytes, rounds_), kTransferLine));
    }
    plane_.next_round += rounds_;
    const auto me = static_cast<std::size_t>(plane.local_rank());
    if (!plan_.own_in_place && plan_.bytes[me] > 0) self_.emplace(plan_.input, plan_.outputs[me]);
  }

  Progress advance() override {
    if (is_done()) return Progress::kDone;
    if (!try_copy_out() && !try_copy_in() && !try_copy_self()) return Progress::kBlocked;
    return is_done() ? Progress::kDone : Progress::kMoved;
  }
  const Status& status() const override { return status_; }

 private:
  std::size_t begin_of(std::uint64_t round, int root) const {
    const auto index = static_cast<std::size_t>(root);
    return std::min(round * pieces_[index], plan_.bytes[index]);
  }
  std::size_t bytes_of(std::uint64_t round, int root) const {
    return begin_of(round + 1, root) - begin_of(round, root);
  }
  bool has_sent_all() const { return bytes_of(in_, plane_.local_rank()) == 0; }
  bool is_done() const { return out_ == rounds_ && has_sent_all() && (!self_ || self_->is_done()); }

  bool try_copy_self() { return self_ && self_->advance(); }

  bool try_copy_in() {
    const int mine = plane_.local_rank();
    if (has_sent_all() || !plane_.slot_is_free(base_ + in_)) return false;
    plan_.input.copy_to(plane_.slot(mine, base_ + in_), begin_of(in_, mine), bytes_of(in_, mine));
    ++in_;
    plane_.publish(NodePlane::kIn, base_ + in_);
    return true;
  }

  bool try_copy_out() {
    if (out_ == rounds_) return false;
    const int mine = plane_.local_rank();
    for (int root = 0; root < plane_.local_size(); ++root) {
      if (root == mine || bytes_of(out_, root) == 0) continue;
      if (!plane_.has_reached(root, NodePlane::kIn, base_ + out_ + 1)) return false;
    }
    for (int root = 0; root < plane_.local_size(); ++root) {
      const std::size_t bytes = bytes_of(out_, root);
      if (root == mine || bytes == 0) continue;
      plan_.outputs[static_cast<std::size_t>(root)].copy_from(plane_.slot(root, base_ + out_),
                                                              begin_of(out_, root), bytes);
    }
    ++out_;
    plane_.publish(NodePlane::kOut, base_ + out_);
    return true;
  }

  NodePlane& plane_;
  RootedPlan plan_;
  std::uint64_t base_;
  std::uint64_t rounds_ = 0;
  std::vector<std::size_t> pieces_;  // by root: bytes of a round
  std::uint64_t in_ = 0;             // rounds that I have given
  std::uint64_t out_ = 0;            // rounds that I have read
  std::optional<SelfCopy> self_;
  Status status_;
};

}  // namespace

std::unique_ptr<Transfer> start_node_transfer(NodePlane& plane, RootedPlan plan) {
  return std::make_unique<NodeTransfer>(plane, std::move(plan));
}

}  // namespace hvd
