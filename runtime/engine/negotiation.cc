// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation.h"

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
      now_(Clock::now()) {
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

void Negotiation::submit(PendingPtr pending) {
  const std::string& text = pending->request.name;
  Name& name = names_[text];
  if (name.current != nullptr) {
    name.queued.push_back(std::move(pending));
    ++queued_;
    return;
  }
  name.current = std::move(pending);
  announce(name.current->request.name, name);
}

void Negotiation::announce(const std::string& text, Name& name) {
  const Pending& pending = *name.current;
  if (name.id && name.described == pending.description) {
    if (is_leader()) {
      leader_->member_ready(place_.rank, *name.id, now_);
    } else {
      bits_.toggle(*name.id);
      ring_leader_ = true;
    }
    return;
  }
  RankSet me(place_.size);
  me.add(place_.rank);
  say_up(Announce{text, pending.cacheable, pending.description, std::move(me)});
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
  leaving_ = true;
  leave_if_all_is_said();
}

/// What is queued will still be announced, and nothing may follow the farewell: the others would
/// run a later use of the name on the strength of that word.
void Negotiation::leave_if_all_is_said() {
  if (queued_ > 0 || !std::exchange(leaving_, false)) return;
  say_up(Leave{place_.rank});
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

void Negotiation::leave_farewell(std::string_view text) {
  Board::Member& member = board_.members[static_cast<std::size_t>(place_.local_rank)];
  const std::size_t length = std::min(text.size(), member.farewell.size());
  std::copy_n(text.begin(), length, member.farewell.begin());
  // release: pairs with the acquire in farewell_of(); publishes the text.
  member.farewell_length.store(static_cast<std::uint32_t>(length), std::memory_order_release);
}

std::string Negotiation::farewell_of(int local_rank) const {
  const Board::Member& member = board_.members[static_cast<std::size_t>(local_rank)];
  // acquire: pairs with the release in leave_farewell().
  const std::size_t length = member.farewell_length.load(std::memory_order_acquire);
  return {member.farewell.data(), std::min(length, member.farewell.size())};
}

bool Negotiation::step(bool may_run) {
  bool moved = false;
  if (is_leader()) {
    moved = listen_to_members();
    moved = listen_to_tree() || moved;
    pass_up_or_decide(may_run);
  } else {
    moved = read_log();
  }
  flush();
  return moved || !decisions_.empty() || tree_.has_losses();
}

bool Negotiation::listen_to_tree() {
  if (!tree_.has_links()) return false;
  const bool moved =
      tree_.poll([this](int from, ControlMessage message) { receive(from, std::move(message)); });
  for (const Lost& loss : tree_.take_losses()) spread_loss(loss.rank, loss.text);
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
  if (const auto* lost = std::get_if<Lost>(&message)) {
    spread_loss(lost->rank, lost->text);
  } else if (from == ControlTree::kParent) {
    write_log(message);
  } else if (const auto* ready = std::get_if<Ready>(&message)) {
    leader_->child_ready(place_.child_subtrees[static_cast<std::size_t>(from)], *ready, now_);
  } else {
    leader_->pass_up(std::move(message));
  }
}

void Negotiation::pass_up_or_decide(bool may_run) {
  if (!is_root()) {
    for (const ControlMessage& message : leader_->take_up()) tree_.send_up(message);
    return;
  }
  // A decision may let a queued request announce itself at once: look again until quiet.
  do {
    for (ControlMessage& message : leader_->take_up()) decide(std::move(message));
    for (const ControlMessage& entry : coordinator_->decide(may_run)) write_log(entry);
  } while (leader_->has_up());
}

void Negotiation::decide(ControlMessage message) {
  if (const auto* ready = std::get_if<Ready>(&message)) {
    const RankSet all = RankSet::all(place_.size);
    for (const std::uint32_t id : ready->ids) coordinator_->ready(id, all, now_);
  } else if (const auto* announce = std::get_if<Announce>(&message)) {
    coordinator_->announce(*announce, now_);
  } else if (const auto* partial = std::get_if<Partial>(&message)) {
    coordinator_->ready(partial->id, partial->ranks, now_);
  } else if (const auto* leave = std::get_if<Leave>(&message)) {
    coordinator_->leave(leave->rank);
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

bool Negotiation::read_log() {
  bool moved = false;
  while (const auto bytes = log_.read()) {
    moved = true;
    auto entry = decode_control_message(*bytes, place_.size);
    if (entry.is_ok()) {
      apply(entry.value());
    } else {
      spread_loss(place_.node_ranks.front(),
                  format_text("rank {} wrote what is no log entry: {}", place_.node_ranks.front(),
                              entry.status().message()));
    }
  }
  if (log_.take_made_room()) ring_leader_ = true;
  return moved;
}

void Negotiation::apply(const ControlMessage& entry) {
  if (const auto* run = std::get_if<Run>(&entry)) {
    apply_run(*run);
  } else if (const auto* define = std::get_if<Define>(&entry)) {
    if (define->id >= Board::kMaxIds) return;
    if (define->id >= name_of_id_.size()) name_of_id_.resize(define->id + 1);
    name_of_id_[define->id] = define->name;
    Name& name = names_[define->name];
    name.id = define->id;
    if (name.current != nullptr) name.described = name.current->description;
  } else if (const auto* failure = std::get_if<Failure>(&entry)) {
    if (PendingPtr pending = take_current(failure->name)) {
      decisions_.emplace_back(
          FailRequest{std::move(pending), Status(failure->code, failure->text)});
    }
  } else if (const auto* stall = std::get_if<Stall>(&entry)) {
    const auto found = names_.find(stall->name);
    if (found != names_.end() && found->second.current != nullptr) {
      log(LogLevel::kWarning, "stall", "{}", stall->text);
    }
  } else if (const auto* left = std::get_if<Left>(&entry)) {
    decisions_.emplace_back(PeerLeft{left->rank});
  } else if (const auto* lost = std::get_if<Lost>(&entry)) {
    if (!std::exchange(lost_, true)) decisions_.emplace_back(PeerLost{lost->rank, lost->text});
  } else if (std::holds_alternative<Shutdown>(entry)) {
    decisions_.emplace_back(AllLeft{});
  }
}

void Negotiation::apply_run(const Run& run) {
  RunTogether together;
  together.requests.reserve(run.ids.size() + 1);
  for (const std::uint32_t id : run.ids) {
    if (id >= name_of_id_.size()) continue;
    if (PendingPtr pending = take_current(name_of_id_[id])) {
      together.requests.push_back(std::move(pending));
    }
  }
  if (!run.name.empty()) {
    if (PendingPtr pending = take_current(run.name)) {
      together.requests.push_back(std::move(pending));
    }
  }
  if (!together.requests.empty()) decisions_.emplace_back(std::move(together));
}

PendingPtr Negotiation::take_current(const std::string& text) {
  const auto found = names_.find(text);
  if (found == names_.end()) return nullptr;
  Name& name = found->second;
  PendingPtr pending = std::exchange(name.current, nullptr);
  if (!name.queued.empty()) {
    name.current = std::move(name.queued.front());
    name.queued.pop_front();
    --queued_;
    announce(found->first, name);
    leave_if_all_is_said();
  } else if (!name.id) {
    names_.erase(found);
  }
  return pending;
}

void Negotiation::tick(Clock::time_point now) {
  now_ = now;
  if (!is_leader()) return;
  // What arrived while this process was held up counts before anybody is called silent.
  tree_.set_time(now);
  listen_to_tree();
  tree_.beat();
  if (stall_warning_.count() == 0) return;
  leader_->give_up_waiting(now, stall_warning_ * 8 / 10);
  if (is_root()) {
    for (const ControlMessage& entry : coordinator_->report_stalls(now)) write_log(entry);
  }
}

std::vector<PendingPtr> Negotiation::take_all_requests() {
  std::vector<PendingPtr> all;
  for (auto& [text, name] : names_) {
    if (name.current != nullptr) all.push_back(std::move(name.current));
    for (PendingPtr& queued : name.queued) all.push_back(std::move(queued));
  }
  names_.clear();
  queued_ = 0;
  return all;
}

void Negotiation::ring() {
  if (std::exchange(ring_leader_, false)) doorbell_->ring(0);
  if (std::exchange(ring_members_, false)) doorbell_->ring_others();
}

}  // namespace hvd
