// SPDX-License-Identifier: Apache-2.0
#include "collective/launch_order.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace hvd {
namespace {

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

bool LaunchTurn::has_come() const {
  if (order_ == nullptr) return true;
  const std::vector<std::uint64_t>& earlier = order_->batches_.find(ticket_)->second.earlier;
  return std::all_of(earlier.begin(), earlier.end(), [&](std::uint64_t ticket) {
    const auto found = order_->batches_.find(ticket);
    return found == order_->batches_.end() || found->second.finish_point != nullptr;
  });
}

bool LaunchTurn::has_come_of_all() const {
  if (order_ == nullptr) return true;
  const auto mine = order_->batches_.find(ticket_);
  return std::none_of(order_->batches_.begin(), mine, [&](const auto& entry) {
    return entry.second.gpu == mine->second.gpu && entry.second.finish_point == nullptr;
  });
}

std::vector<GpuEventPtr> LaunchTurn::before() const {
  if (order_ == nullptr) return {};
  std::map<int, GpuEventPtr> latest;  // the batches of a set run one after the other
  for (const std::uint64_t ticket : order_->batches_.find(ticket_)->second.earlier) {
    const auto found = order_->batches_.find(ticket);
    if (found == order_->batches_.end()) continue;
    latest[found->second.process_set] = found->second.finish_point;
  }
  std::vector<GpuEventPtr> events;
  events.reserve(latest.size());
  for (auto& [process_set, event] : latest) events.push_back(std::move(event));
  return events;
}

void LaunchTurn::pass_on(GpuEventPtr finish_point) {
  if (order_ == nullptr) return;
  order_->batches_.find(ticket_)->second.finish_point = std::move(finish_point);
}

void LaunchTurn::drop() {
  if (order_ != nullptr) std::exchange(order_, nullptr)->batches_.erase(ticket_);
}

LaunchOrder::LaunchOrder(int rank, int size) : rank_(rank) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  sets_[0] = std::move(all);
}

void LaunchOrder::add_set(int process_set, std::vector<int> ranks) {
  sets_[process_set] = std::move(ranks);
  known_.clear();
}

void LaunchOrder::remove_set(int process_set) {
  sets_.erase(process_set);
  known_.clear();
}

LaunchTurn LaunchOrder::take_turn(int process_set, Device device) {
  Batch batch{.process_set = process_set, .gpu = device.index};
  for (const auto& [ticket, earlier] : batches_) {
    if (take_turns(earlier, batch)) batch.earlier.push_back(ticket);
  }
  batches_.emplace(next_ticket_, std::move(batch));
  return {*this, next_ticket_++};
}

bool LaunchOrder::may_lock_out(int one, int other) const {
  const auto from = sets_.find(one);
  const auto to = sets_.find(other);
  if (from == sets_.end() || to == sets_.end()) return true;
  // The ranks that waiting reaches from the one set without this rank.
  std::set<int> reached(from->second.begin(), from->second.end());
  reached.erase(rank_);
  const auto is_reached = [&](int rank) { return reached.contains(rank); };
  for (std::size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const auto& [process_set, ranks] : sets_) {
      if (contains(ranks, rank_) || std::none_of(ranks.begin(), ranks.end(), is_reached)) continue;
      reached.insert(ranks.begin(), ranks.end());
    }
  }
  return std::any_of(to->second.begin(), to->second.end(), is_reached);
}

bool LaunchOrder::take_turns(const Batch& one, const Batch& other) {
  if (one.process_set == other.process_set || one.gpu != other.gpu) return false;
  const auto [known, is_new] =
      known_.try_emplace(std::minmax(one.process_set, other.process_set), false);
  if (is_new) known->second = may_lock_out(one.process_set, other.process_set);
  return known->second;
}

}  // namespace hvd
