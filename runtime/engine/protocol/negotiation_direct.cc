// SPDX-License-Identifier: Apache-2.0
// Small requests that need no negotiation: all ranks bring the same to a direct round.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/plane/direct_operation.h"
#include "engine/protocol/negotiation.h"

namespace hvd {
namespace {

/// An offer that is not decided at the second tick is taken back and announced, so that the root
/// knows who waits for whom.
constexpr int kOfferTicks = 2;
/// Where a name was missed, it is offered again from the next position on that is a multiple of
/// this, doubled with each miss in a row so many times at most. Ranks may count different misses:
/// what is a multiple for one that counts more is one for all, so there they offer together again.
constexpr std::uint64_t kFirstPeriod = 64;
constexpr std::uint32_t kMostDoublings = 10;

}  // namespace

void Negotiation::open_direct(const Communicator& communicator, DirectRounds& rounds) {
  Set* set = find_set(communicator.process_set);
  if (set == nullptr) return;
  if (communicator.node_count() > 1 && is_leader()) {
    relay_ = std::make_unique<DirectRelay>(rounds, place_.node_ranks);
  }
  if (has_left_) return rounds.stop();
  const auto size = static_cast<std::size_t>(communicator.size);
  set->direct =
      std::make_unique<Direct>(Direct{communicator, rounds, std::vector<const void*>(size)});
  direct_sets_.push_back(set);
}

void Negotiation::close_direct(int process_set) {
  Set* set = find_set(process_set);
  if (set == nullptr) return;
  std::erase(direct_sets_, set);
  set->direct = nullptr;
}

bool Negotiation::offer_direct(Set& set, NameEntry& entry) {
  Name& name = entry.second;
  if (set.direct == nullptr || !name.id || name.in_full) return false;
  PendingRequest& pending = *name.current;
  Direct& direct = *set.direct;
  if (is_leaving_ || set.joining != nullptr || direct.join != nullptr || set.joined) return false;
  if (set.position < name.offer_from) return false;
  if (pending.direct_key != name.key) {
    if (name.described != pending.description) return false;
    if (!fits_direct(pending, direct.communicator, DirectRounds::kRoom)) return false;
    pending.direct_key = name.key;
  }
  if (!direct.rounds.may_offer()) return false;
  const std::size_t bytes = bring_direct(pending, direct.communicator, direct.rounds.my_place());
  direct.rounds.offer({.key = name.key,
                       .position = static_cast<std::uint32_t>(set.position),
                       .bytes = static_cast<std::uint32_t>(bytes)});
  direct.offered = &entry;
  direct.ticks = 0;
  return true;
}

/// Whether this rank has announced what another one offers: that round can come to nothing.
bool Negotiation::is_announced(Set& set, const DirectRounds::Offer& theirs) {
  // Behind them in the log: what is in flight here may be the use before, which they have ended.
  const auto ahead = static_cast<std::uint32_t>(set.position) - theirs.position;
  if (static_cast<std::int32_t>(ahead) < 0) return false;
  if (set.joining != nullptr || set.joined) return true;
  const auto found = set.by_key.find(theirs.key);
  if (found == set.by_key.end()) return true;  // evicted here
  Name& name = found->second->second;
  if (name.current == nullptr) return false;
  // It was not due here before: then the others, who have missed it less often, come to that.
  if (set.position >= name.offer_from) miss(set, name);
  return true;
}

void Negotiation::miss(const Set& set, Name& name) {
  const std::uint64_t period = kFirstPeriod << std::min(name.misses, kMostDoublings);
  name.offer_from = (set.position / period + 1) * period;
  ++name.misses;
}

bool Negotiation::step_direct() {
  if (lost_) return false;
  bool moved = false;
  for (Set* set : direct_sets_) moved = step_direct(*set) || moved;
  if (is_leaving_ && !has_left_ && !has_offers()) say_farewell();
  return moved;
}

bool Negotiation::step_direct(Set& set) {
  Direct& direct = *set.direct;
  if (direct.offered == nullptr) {
    return direct.rounds.answer(
        [&](const DirectRounds::Offer& theirs) { return is_announced(set, theirs); });
  }
  if (direct.is_agreed) return false;
  switch (direct.rounds.judge()) {
    case DirectRounds::Verdict::kOpen:
      return false;
    case DirectRounds::Verdict::kAgreed:
      agree(direct);
      return true;
    case DirectRounds::Verdict::kVoid:
      break;
  }
  NameEntry& entry = *std::exchange(direct.offered, nullptr);
  direct.rounds.end_offer();
  if (direct.ticks < kOfferTicks) miss(set, entry.second);  // else it was slow, not wrong
  announce_in_log(set, entry);
  if (direct.join != nullptr) join(set, std::exchange(direct.join, nullptr));
  return true;
}

/// All have brought what this rank offers.
void Negotiation::agree(Direct& direct) {
  direct.is_agreed = true;
  Name& name = direct.offered->second;
  name.misses = 0;
  for (std::size_t rank = 0; rank < direct.places.size(); ++rank) {
    direct.places[rank] = direct.rounds.place_of(static_cast<int>(rank));
  }
  decisions_.emplace_back(
      RunDirect{direct.communicator.process_set, name.current.get(), direct.places});
}

std::optional<DirectRounds::Verdict> Negotiation::look(const PendingRequest& offered) {
  const Set* set = find_set(offered.request.process_set);
  if (lost_ || relay_ != nullptr || set == nullptr || set->direct == nullptr) return std::nullopt;
  Direct& direct = *set->direct;
  const bool is_open = direct.offered != nullptr && !direct.is_agreed;
  if (!is_open || direct.offered->second.current.get() != &offered) return std::nullopt;
  const DirectRounds::Verdict verdict = direct.rounds.judge();
  if (verdict == DirectRounds::Verdict::kAgreed) agree(direct);
  return verdict;
}

PendingPtr Negotiation::end_direct(int process_set) {
  Set* set = find_set(process_set);
  HVD_CHECK(set != nullptr && set->direct != nullptr && set->direct->is_agreed);
  Direct& direct = *set->direct;
  direct.rounds.end_offer();
  direct.is_agreed = false;
  PendingPtr done = take_current(*set, *std::exchange(direct.offered, nullptr));
  if (direct.join != nullptr && direct.offered == nullptr) {
    join(*set, std::exchange(direct.join, nullptr));
  }
  return done;
}

/// True where there was anything to tell.
bool Negotiation::relay_direct() {
  if (relay_ == nullptr) return false;
  const std::vector<ControlMessage> news = relay_->take_news();
  if (news.empty()) return false;
  for (const ControlMessage& message : news) tree_.hand_on(message);
  tree_.flush();
  return true;
}

void Negotiation::want_old_offers_back() {
  for (Set* set : direct_sets_) {
    Direct& direct = *set->direct;
    if (direct.offered != nullptr && ++direct.ticks >= kOfferTicks) direct.rounds.want_back();
  }
}

bool Negotiation::has_offers() const {
  return std::any_of(direct_sets_.begin(), direct_sets_.end(),
                     [](const Set* set) { return set->direct->offered != nullptr; });
}

}  // namespace hvd
