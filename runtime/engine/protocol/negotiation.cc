// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/negotiation.h"

#include <algorithm>

#include "base/log.h"

namespace hvd {
namespace {

RankSet subtree_of(const Negotiation::Place& place) {
  RankSet subtree(place.size);
  for (const int rank : place.node_ranks) subtree.add(rank);
  for (const RankSet& child : place.child_subtrees) subtree.add_all(child);
  return subtree;
}

}  // namespace

Negotiation::Negotiation(Place place, const Board& board, Doorbell* doorbell, ControlTree tree,
                         const Coordinator::Options& options)
    : place_(std::move(place)),
      board_(board),
      doorbell_(doorbell),
      tree_(std::move(tree)),
      stall_warning_(options.stall_warning),
      stall_shutdown_(options.stall_shutdown),
      now_(Clock::now()),
      ticked_(now_),
      left_(place_.size) {
  sets_.push_back(std::make_unique<Set>());
  sets_.front()->is_member = true;
  const auto me = static_cast<std::size_t>(place_.local_rank);
  if (!is_leader()) {
    Board::Member& member = board_.members[me];
    bits_ = ReadyBits(&member);
    up_ = RingWriter(member.up, {&member.up_cursor});
    log_ = RingReader(board_.down, &member.down_cursor);
    return;
  }
  leader_ = std::make_unique<Leader>(subtree_of(place_), place_.size);
  std::vector<const RingCursor*> readers;
  for (std::size_t i = 1; i < board_.members.size(); ++i) {
    Board::Member& member = board_.members[i];
    member_bits_.emplace_back(&member);
    member_up_.emplace_back(member.up, &member.up_cursor);
    readers.push_back(&member.down_cursor);
  }
  down_ = RingWriter(board_.down, std::move(readers));
  if (is_root()) coordinator_ = std::make_unique<Coordinator>(place_.hosts, options);
}

Negotiation::Set* Negotiation::find_set(int process_set) {
  const auto index = static_cast<std::size_t>(process_set);
  Set* set = index < sets_.size() ? sets_[index].get() : nullptr;
  return set != nullptr && set->is_member ? set : nullptr;
}

Negotiation::NameEntry* Negotiation::find_name(int process_set, const std::string& text) {
  Set* set = find_set(process_set);
  if (set == nullptr) return nullptr;
  const auto found = set->names.find(text);
  return found == set->names.end() ? nullptr : &*found;
}

void Negotiation::submit(PendingPtr pending) {
  Set* set = find_set(pending->request.process_set);
  if (set == nullptr) {
    const Status gone = error(Code::kInvalidArgument, "rank {}: '{}': process set {} was removed",
                              place_.rank, pending->request.name, pending->request.process_set);
    decisions_.emplace_back(FailRequest{std::move(pending), gone});
    return;
  }
  if (std::holds_alternative<Join>(pending->request.operation)) {
    return join(*set, std::move(pending));
  }
  if (set->joining != nullptr) {
    const Status late =
        error(Code::kInvalidArgument, "rank {}: '{}' comes after the join of process set {}",
              place_.rank, pending->request.name, pending->request.process_set);
    decisions_.emplace_back(FailRequest{std::move(pending), late});
    return;
  }
  // A kept request knows the number of its name, if it is still its own.
  const auto known = set->by_key.find(pending->direct_key);
  const bool is_known = known != set->by_key.end() && known->second->first == pending->request.name;
  NameEntry& entry =
      is_known ? *known->second : *set->names.try_emplace(pending->request.name).first;
  if (entry.second.current != nullptr) {
    entry.second.queued.push_back(std::move(pending));
    return;
  }
  entry.second.current = std::move(pending);
  announce(*set, entry);
}

void Negotiation::announce(Set& set, NameEntry& entry) {
  if (!offer_direct(set, entry)) announce_in_log(set, entry);
}

void Negotiation::announce_in_log(const Set& set, NameEntry& entry) {
  const Name& name = entry.second;
  const PendingRequest& pending = *name.current;
  // A bit may overtake what was said before it, and must not overtake the last word.
  const bool in_full = name.in_full || has_left_ || set.joining != nullptr;
  if (name.id && !in_full && name.described == pending.description) {
    if (is_leader()) {
      leader_->member_ready(place_.rank, *name.id, now_);
    } else {
      bits_.toggle(*name.id);
      ring_leader_ = true;
    }
    return;
  }
  ++announced_in_full_;
  RankSet me(place_.size);
  me.add(place_.rank);
  say_up(Announce{entry.first, pending.cacheable, pending.description, std::move(me),
                  pending.call > 0});
}

void Negotiation::say_up(ControlMessage message) {
  if (is_leader()) {
    leader_->pass_up(std::move(message));
    return;
  }
  up_.write(encode(message));
  ring_leader_ = true;
}

void Negotiation::leave() {
  is_leaving_ = true;
  for (Set* set : direct_sets_) set->direct->rounds.want_back();
  if (!has_offers()) say_farewell();
}

void Negotiation::say_farewell() {
  if (std::exchange(has_left_, true)) return;
  for (Set* set : direct_sets_) set->direct->rounds.stop();
  Leave leave{place_.rank};
  for (std::size_t id = 0; id < sets_.size(); ++id) {
    if (sets_[id] != nullptr) append_owed(*sets_[id], static_cast<int>(id), leave.owed);
  }
  say_up(std::move(leave));
}

void Negotiation::join(Set& set, PendingPtr pending) {
  if (!set.missed_joins.empty()) {
    decisions_.emplace_back(FailRequest{std::move(pending), std::move(set.missed_joins.front())});
    set.missed_joins.pop_front();
    return;
  }
  if (set.direct != nullptr && set.direct->offered != nullptr) {
    set.direct->join = std::move(pending);
    set.direct->rounds.want_back();
    return;
  }
  set.joining = std::move(pending);
  const int id = set.joining->request.process_set;
  Joining joining{place_.rank, id, set.join_epoch, set.joining->active_average};
  append_owed(set, id, joining.owed);
  say_up(std::move(joining));
}

void Negotiation::append_owed(const Set& set, int process_set, std::vector<Owed>& owed) {
  for (const auto& [text, name] : set.names) {
    if (name.queued.empty()) continue;
    owed.push_back({process_set, text, static_cast<std::uint32_t>(name.queued.size())});
  }
}

void Negotiation::add_set(const RankSet& ranks) {
  if (coordinator_ != nullptr) coordinator_->add_set(ranks);
}

void Negotiation::remove_set(int process_set) {
  if (coordinator_ != nullptr) coordinator_->remove_set(process_set);
}

void Negotiation::spread_loss(int rank, const std::string& text) {
  if (std::exchange(lost_, true)) return;
  const Lost lost{rank, text};
  decisions_.emplace_back(PeerLost{rank, text});
  if (is_leader()) {
    tree_.flood(lost);
    down_.write(encode(lost));
    ring_members_ = true;
  } else {
    say_up(lost);
  }
  ring();
}

bool Negotiation::speaks_for_others() const {
  if (!is_leader()) return false;
  RankSet gone = left_;
  gone.add(place_.rank);
  const RankSet all = is_root() ? RankSet::all(place_.size) : subtree_of(place_);
  return !all.without(gone).empty();
}

bool Negotiation::has_left_with_those_below(int leader) const {
  return std::any_of(
      place_.child_subtrees.begin(), place_.child_subtrees.end(),
      [&](const RankSet& below) { return below.contains(leader) && below.without(left_).empty(); });
}

void Negotiation::leave_farewell(std::string_view text) {
  Board::Member& member = board_.members[static_cast<std::size_t>(place_.local_rank)];
  std::size_t length = std::min(text.size(), member.farewell.size());
  // Not in the middle of a character.
  while (length > 0 && length < text.size() && (text[length] & 0xC0) == 0x80) --length;
  text = text.substr(0, length);
  std::copy_n(text.begin(), length, member.farewell.begin());
  // release: pairs with the acquire in farewell_of(); publishes the text.
  member.farewell_length.store(static_cast<std::uint32_t>(length), std::memory_order_release);
  // The ranks of other nodes see the end of a connection, which says nothing.
  if (is_leader()) tree_.flood(Farewell{std::string(text)});
}

std::string Negotiation::farewell_of(int local_rank) const {
  const Board::Member& member = board_.members[static_cast<std::size_t>(local_rank)];
  // acquire: pairs with the release in leave_farewell().
  const std::size_t length = member.farewell_length.load(std::memory_order_acquire);
  return {member.farewell.data(), std::min(length, member.farewell.size())};
}

bool Negotiation::step() {
  bool moved = false;
  if (is_leader()) {
    moved = relay_direct();  // what is submitted just now, before anything that takes time
    moved = listen_to_members() || moved;
    moved = listen_to_tree() || moved;
    pass_up_or_decide();
  } else {
    moved = read_log();
  }
  moved = step_direct() || moved;
  moved = relay_direct() || moved;
  flush();
  return moved || !decisions_.empty() || tree_.has_losses();
}

bool Negotiation::listen_to_tree() {
  if (!tree_.has_links()) return false;
  const bool moved =
      tree_.poll([this](int from, ControlMessage message) { receive(from, std::move(message)); });
  if (moved) tree_.flush();  // what was handed on
  for (const Lost& loss : tree_.take_losses()) {
    if (!has_left_with_those_below(loss.rank)) spread_loss(loss.rank, loss.text);
  }
  return moved;
}

bool Negotiation::flush() {
  if (down_.has_unsent() && down_.flush()) ring_members_ = true;
  if (up_.has_unsent() && up_.flush()) ring_leader_ = true;
  ring();
  return !down_.has_unsent() && !up_.has_unsent() && tree_.flush();
}

bool Negotiation::listen_to_members() {
  bool moved = false;
  for (std::size_t i = 0; i < member_bits_.size(); ++i) {
    const int rank = place_.node_ranks[i + 1];
    const auto poll_bits = [&] {
      return member_bits_[i].poll([&](std::uint32_t id) { leader_->member_ready(rank, id, now_); });
    };
    moved = poll_bits() || moved;
    while (const auto bytes = member_up_[i].read()) {
      moved = true;
      poll_bits();  // what it toggled before it wrote comes first: it may be its farewell
      auto message = decode_control_message(*bytes, place_.size);
      if (!message.is_ok()) {
        spread_loss(rank, format_text("rank {} on host {} announced nonsense: {}", rank,
                                      place_.hosts[static_cast<std::size_t>(rank)],
                                      message.status().message()));
      } else if (const auto* lost = std::get_if<Lost>(&message.value())) {
        spread_loss(lost->rank, lost->text);
      } else {
        leader_->pass_up(std::move(message).value());
      }
    }
    if (member_up_[i].take_made_room()) doorbell_->ring(static_cast<int>(i) + 1);
  }
  return moved;
}

void Negotiation::receive(int from, ControlMessage message) {
  const auto carry = [&](const auto& of_round) {
    if (relay_ == nullptr) return;
    if (relay_->take(of_round)) return tree_.hand_on(message, from);
    spread_loss(of_round.rank,
                format_text("rank {} on host {} brought nonsense to a direct round; see that all "
                            "ranks load the same libhvd, or set HVD_DIRECT=0",
                            of_round.rank, place_.hosts[static_cast<std::size_t>(of_round.rank)]));
  };
  if (const auto* lost = std::get_if<Lost>(&message)) {
    spread_loss(lost->rank, lost->text);
  } else if (const auto* brought = std::get_if<Brought>(&message)) {
    carry(*brought);
  } else if (const auto* wanted = std::get_if<WantedBack>(&message)) {
    carry(*wanted);
  } else if (from == ControlTree::kParent) {
    write_log(message);
  } else if (const auto* ready = std::get_if<Ready>(&message)) {
    leader_->child_ready(place_.child_subtrees[static_cast<std::size_t>(from)], *ready, now_);
  } else {
    leader_->pass_up(std::move(message));
  }
}

void Negotiation::pass_up_or_decide() {
  if (!is_root()) {
    for (const ControlMessage& message : leader_->take_up()) tree_.send_up(message);
    return;
  }
  // A decision may let a queued request announce itself at once: look again until quiet.
  do {
    for (ControlMessage& message : leader_->take_up()) decide(std::move(message));
    for (const ControlMessage& entry : coordinator_->decide()) write_log(entry);
  } while (leader_->has_up());
}

void Negotiation::decide(ControlMessage message) {
  if (const auto* ready = std::get_if<Ready>(&message)) {
    for (const std::uint32_t id : ready->ids) coordinator_->ready(id, now_);
  } else if (const auto* announce = std::get_if<Announce>(&message)) {
    coordinator_->announce(*announce, now_);
  } else if (const auto* partial = std::get_if<Partial>(&message)) {
    coordinator_->ready(partial->id, partial->ranks,
                        now_ - std::chrono::milliseconds(partial->waited_ms));
  } else if (const auto* leave = std::get_if<Leave>(&message)) {
    coordinator_->leave(*leave);
  } else if (const auto* joining = std::get_if<Joining>(&message)) {
    coordinator_->join(*joining);
  } else if (const auto* urge = std::get_if<Urge>(&message)) {
    coordinator_->urge(*urge);
  } else if (std::holds_alternative<Evicted>(message)) {
    coordinator_->evicted();
  }
}

void Negotiation::write_log(const ControlMessage& entry) {
  if (tree_.has_links()) tree_.send_down(entry);
  if (board_.members.size() > 1) {
    down_.write(encode(entry));
    ring_members_ = true;
  }
  leader_->follow(entry);
  apply(entry);
}

void Negotiation::tick(Clock::time_point now) {
  // Who was stopped, and the job with it, has waited for nobody meanwhile.
  now_ += std::min<Clock::duration>(now - ticked_, kMostTick);
  ticked_ = now;
  want_old_offers_back();
  if (!is_leader()) return;
  // What arrived while this process was held up counts before anybody is called silent.
  tree_.set_time(now_);
  listen_to_tree();
  tree_.beat();
  if (stall_warning_.count() == 0) return;
  leader_->give_up_waiting(now_, stall_warning_ * 8 / 10);
  if (is_root()) report_stalls();
}

/// From the root only, for the whole job: each rank that waits would say the same.
void Negotiation::report_stalls() {
  if (lost_) return;
  const auto places = [this] { return RankPlaces{place_.hosts, place_.pids}; };
  if (const auto stalls = coordinator_->unbearable_stalls(now_)) {
    return write_log(GiveUp{describe_end(*stalls, stall_shutdown_, places())});
  }
  if (const auto stalls = coordinator_->report_stalls(now_)) {
    log(LogLevel::kWarning, "stall", "{}", describe_stalls(*stalls, stall_warning_, places()));
  }
}

std::size_t Negotiation::known_names() const {
  std::size_t names = 0;
  for (const auto& set : sets_) names += set == nullptr ? 0 : set->names.size();
  return names;
}

std::vector<PendingPtr> Negotiation::take_all_requests() {
  std::vector<PendingPtr> all;
  for (const auto& set : sets_) {
    if (set == nullptr) continue;
    if (set->joining != nullptr) all.push_back(std::move(set->joining));
    if (set->direct != nullptr) {
      if (set->direct->join != nullptr) all.push_back(std::move(set->direct->join));
      set->direct->offered = nullptr;
    }
    for (auto& [text, name] : set->names) {
      if (name.current != nullptr) all.push_back(std::move(name.current));
      for (PendingPtr& queued : name.queued) all.push_back(std::move(queued));
    }
    set->names.clear();
    set->by_key.clear();
  }
  by_id_.clear();
  return all;
}

void Negotiation::stop_listening() {
  if (is_leader()) return;
  auto& cursor = board_.members[static_cast<std::size_t>(place_.local_rank)].down_cursor;
  cursor.read.store(RingCursor::kGone);
  doorbell_->ring(0);
}

void Negotiation::forget_reader(int rank) {
  const auto& node = place_.node_ranks;
  const auto found = std::find(node.begin(), node.end(), rank);
  if (!is_leader() || found == node.end()) return;
  board_.members[static_cast<std::size_t>(found - node.begin())].down_cursor.read.store(
      RingCursor::kGone);
}

void Negotiation::ring() {
  if (down_.take_filled_quarter()) doorbell_->wake_others();
  if (std::exchange(ring_leader_, false)) doorbell_->ring(0);
  if (std::exchange(ring_members_, false)) doorbell_->ring_others();
}

}  // namespace hvd
