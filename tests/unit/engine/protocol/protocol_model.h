// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/protocol/coordinator.h"
#include "engine/protocol/leader.h"
#include "protocol_member.h"

namespace hvd::protocol_model {

/// One world, its messages under way, and chance. One thread at a time.
class Model {
 public:
  Model(Shape shape, Plan plan, unsigned seed)
      : shape_(shape),
        plan_(std::move(plan)),
        random_(seed),
        members_(static_cast<std::size_t>(shape.size())),
        nodes_(static_cast<std::size_t>(shape.nodes)),
        coordinator_(std::vector<std::string>(static_cast<std::size_t>(shape.size()), "host"),
                     {.fusion_bytes = 64,
                      .stall_warning = std::chrono::milliseconds(1000),
                      .ids = plan_.ids,
                      .idle_uses = plan_.idle_uses}) {
    for (const RankSet& set : plan_.sets) coordinator_.add_set(set);
    for (int node = 0; node < shape.nodes; ++node) {
      at(node).leader = std::make_unique<Leader>(shape.subtree(node), shape.size());
    }
    for (int rank = 0; rank < shape.size(); ++rank) {
      for (const std::string& name : plan_.names) {
        for (int i = plan_.uses_of(rank, name); i > 0; --i) member(rank).to_submit.push_back(name);
      }
      std::vector<std::string>& list = member(rank).to_submit;
      std::shuffle(list.begin(), list.end(), random_);
      if (plan_.in_steps) plan_.sort_by_use(list);
      if (!plan_.program.empty()) list.assign(plan_.program.rbegin(), plan_.program.rend());
    }
  }

  /// Chance first, then whatever is left, until nothing moves.
  void run() {
    const int events = shape_.size() * 60;
    for (int i = 0; i < events; ++i) random_event();
    settle();
  }
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < shape_.size(); ++rank) {
        for (int i = 0; i < 5; ++i) moved = act(i, rank) || moved;
      }
      for (int node = shape_.nodes - 1; node >= 0; --node) {
        while (hear_from_child(node) || hear_from_parent(node)) moved = true;
        moved = speak(node, true) || moved;
      }
    }
  }

  /// For a search through all orders of events: what `rank`, or its node where it leads, does next,
  /// and what its leader says then.
  enum class Event { kSubmit, kReadLog, kShowBits, kHearMember, kHearChild, kHearParent };
  bool can(Event event, int rank) {
    const Member& me = member(rank);
    const auto has_words = [this](int child) { return !at(child).up.empty(); };
    const std::vector<int> children = shape_.children(shape_.node_of(rank));
    if (event == Event::kSubmit) return !me.to_submit.empty() && in_flight(rank) < 2;
    if (event == Event::kReadLog) return !me.down.empty();
    if (event == Event::kShowBits) return !me.bits.empty();
    if (event == Event::kHearMember) return !me.up.empty();
    if (event == Event::kHearParent) return leads(rank) && !at(shape_.node_of(rank)).down.empty();
    return leads(rank) && std::any_of(children.begin(), children.end(), has_words);
  }
  void act(Event event, int rank) {
    const int node = shape_.node_of(rank);
    if (event == Event::kSubmit) submit(rank);
    if (event == Event::kReadLog) read_log(rank);
    if (event == Event::kShowBits) hear_from_member(rank, 0);
    if (event == Event::kHearMember) hear_from_member(rank, 1);
    if (event == Event::kHearChild) hear_from_child(node);
    if (event == Event::kHearParent) hear_from_parent(node);
    if (leads(rank) || event == Event::kShowBits || event == Event::kHearMember) speak(node, true);
  }

  /// The process set ends once all its uses are over, and its ids are given to others.
  void remove_set(int process_set) {
    coordinator_.remove_set(process_set);
    settle();
  }

  /// For the steady state: one more use of `name` on every rank, delivered to the end.
  void use_once_more(const std::string& name) {
    for (int rank = 0; rank < shape_.size(); ++rank) {
      if (plan_.has_rank(name, rank)) member(rank).to_submit.push_back(name);
    }
    for (int rank = 0; rank < shape_.size(); ++rank) submit(rank);
    settle();
  }

  Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  Node& at(int node) { return nodes_[static_cast<std::size_t>(node)]; }
  const Plan& plan() const { return plan_; }
  const Coordinator& coordinator() const { return coordinator_; }
  const Shape& shape() const { return shape_; }

 private:
  bool chance(int one_in) { return random_() % static_cast<unsigned>(one_in) == 0; }
  bool leads(int rank) const { return rank % shape_.local_size == 0; }
  int in_flight(int rank) {
    int uses = 0;
    for (const auto& [text, submitted] : member(rank).submitted) {
      uses += submitted - static_cast<int>(member(rank).outcomes[text].size());
    }
    return uses;
  }
  Leader& leader_of(int rank) { return *at(shape_.node_of(rank)).leader; }

  void random_event() {
    const int rank = static_cast<int>(random_() % static_cast<unsigned>(shape_.size()));
    const int node = shape_.node_of(rank);
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
      case 3:
        act(static_cast<int>(random_() % 5), rank);
        break;
      case 4:
        hear_from_child(node);
        break;
      case 5:
        hear_from_parent(node);
        break;
      case 6:
        speak(node, chance(2));
        break;
      default:
        // As after a stall: what is known goes up in part.
        if (chance(8)) at(node).leader->give_up_waiting(kStart, std::chrono::milliseconds(0));
    }
  }

  bool act(int what, int rank) {
    if (what == 0) return submit(rank);
    if (what == 1) return join(rank) || leave(rank);
    if (what == 2) return read_log(rank);
    if (what == 3) return hear_from_member(rank, chance(3) ? 0 : 1);
    return urge(rank);
  }

  /// As if it waited: at any moment while it has submitted a part of a bucket only.
  bool urge(int rank) {
    Member& me = member(rank);
    if (me.has_urged || !me.has_part_of_a_bucket()) return false;
    me.has_urged = true;
    say_up(rank, Urge{0, format_text("rank {} waits", rank)});
    return true;
  }

  bool submit(int rank) {
    Member& me = member(rank);
    if (me.to_submit.empty()) return false;
    const std::string text = me.to_submit.back();
    me.to_submit.pop_back();
    Member::Name& name = me.names[text];
    const int use = me.submitted[text]++;
    if (name.current) {
      name.queued.push_back(use);
    } else {
      name.current = use;
      announce(rank, text, name);
    }
    return true;
  }

  void announce(int rank, const std::string& text, Member::Name& name) {
    Member& me = member(rank);
    ++me.announced[text];
    const Description description = plan_.description(rank, text, *name.current);
    const bool in_full = name.in_full || me.has_left || (me.has_said_join && !me.join_is_over);
    if (name.id && !in_full && name.described == description) {
      if (leads(rank)) {
        leader_of(rank).member_ready(rank, *name.id, kStart);
      } else {
        EXPECT_TRUE(me.bits.insert(*name.id).second) << "toggled twice: the leader missed a use";
      }
      return;
    }
    RankSet ranks(shape_.size());
    ranks.add(rank);
    say_up(rank, Announce{name_of(text), name_of(text) != "once", description, std::move(ranks)});
  }

  void say_up(int rank, ControlMessage message) {
    if (leads(rank)) {
      leader_of(rank).pass_up(std::move(message));
    } else {
      member(rank).up.push_back(std::move(message));
    }
  }

  /// The leavers go while their requests are in flight or queue; the others once theirs are done.
  bool leave(int rank) {
    Member& me = member(rank);
    if (me.has_left || !me.to_submit.empty() || plan_.all_stay) return false;
    if (!plan_.leavers.contains(rank)) {
      if (plan_.all_join && !me.join_is_over) return false;
      // After a join that failed, what is in flight may want for a rank that had joined.
      const bool may_wait = !plan_.all_join || plan_.leavers.empty();
      for (const auto& [text, name] : me.names) {
        if (name.current && may_wait) return false;
      }
    }
    me.has_left = true;
    say_up(rank, Leave{rank, me.owed()});
    return true;
  }

  /// While what it submitted may be in flight or queue.
  bool join(int rank) {
    Member& me = member(rank);
    if (!plan_.all_join || me.has_said_join || !me.to_submit.empty()) return false;
    if (plan_.leavers.contains(rank) || me.join_is_over) return false;
    me.has_said_join = true;
    say_up(rank, Joining{rank, 0, 0, false, me.owed()});
    return true;
  }

  bool hear_from_member(int rank, int messages) {
    if (leads(rank)) return false;
    Member& them = member(rank);
    Node& node = at(shape_.node_of(rank));
    if (them.bits.empty() && them.up.empty()) return false;
    if (plan_.mutant == Mutant::kAnswerOvertakesBits && messages > 0 && !them.up.empty() &&
        std::holds_alternative<Evicted>(them.up.front())) {
      node.leader->pass_up(std::move(them.up.front()));
      them.up.pop_front();
      return true;
    }
    if (!them.bits.empty()) ++node.heard_from_below;
    for (const auto id : std::exchange(them.bits, {})) node.leader->member_ready(rank, id, kStart);
    if (them.up.empty() || messages == 0) return true;
    ++node.heard_from_below;
    node.leader->pass_up(std::move(them.up.front()));
    them.up.pop_front();
    return true;
  }

  bool hear_from_child(int node) {
    for (const int child : shape_.children(node)) {
      if (at(child).up.empty()) continue;
      const ControlMessage message = std::move(at(child).up.front());
      at(child).up.pop_front();
      ++at(node).heard_from_below;
      if (const auto* ready = std::get_if<Ready>(&message)) {
        at(node).leader->child_ready(shape_.subtree(child), *ready, kStart);
      } else {
        at(node).leader->pass_up(message);
      }
      return true;
    }
    return false;
  }

  bool hear_from_parent(int node) {
    if (at(node).down.empty()) return false;
    const ControlMessage entry = std::move(at(node).down.front());
    at(node).down.pop_front();
    ++at(node).heard_from_above;
    write_log(node, entry);
    return true;
  }

  bool speak(int node, bool may_run) {
    bool moved = false;
    do {
      for (ControlMessage& message : at(node).leader->take_up()) {
        moved = true;
        if (node == 0) {
          decide(message);
        } else {
          at(node).up.push_back(std::move(message));
        }
      }
      if (node != 0) return moved;
      for (int set = 0; set <= static_cast<int>(plan_.sets.size()); ++set) {
        coordinator_.hold(set, !may_run && (set == 0 || chance(2)));
      }
      for (const ControlMessage& entry : coordinator_.decide()) {
        moved = true;
        check_consent(entry);
        write_log(0, entry);
        if (plan_.mutant == Mutant::kFreesAtOnce && std::holds_alternative<Evict>(entry)) {
          coordinator_.evicted();
        }
      }
    } while (at(0).leader->has_up());
    return moved;
  }

  void decide(const ControlMessage& message) {
    if (const auto* ready = std::get_if<Ready>(&message)) {
      for (const auto id : ready->ids) {
        coordinator_.ready(id, kStart);
      }
    } else if (const auto* announce = std::get_if<Announce>(&message)) {
      coordinator_.announce(*announce, kStart);
    } else if (const auto* partial = std::get_if<Partial>(&message)) {
      coordinator_.ready(partial->id, partial->ranks, kStart);
    } else if (const auto* joining = std::get_if<Joining>(&message)) {
      coordinator_.join(*joining);
    } else if (const auto* urge = std::get_if<Urge>(&message)) {
      coordinator_.urge(*urge);
    } else if (std::holds_alternative<Evicted>(message)) {
      coordinator_.evicted();
    } else {
      coordinator_.leave(std::get<Leave>(message));
    }
  }

  void write_log(int node, const ControlMessage& entry) {
    for (const int child : shape_.children(node)) at(child).down.push_back(entry);
    const int first = node * shape_.local_size;
    for (int i = 1; i < shape_.local_size; ++i) member(first + i).down.push_back(entry);
    at(node).leader->follow(entry);
    apply(first, entry);
  }

  bool read_log(int rank) {
    Member& me = member(rank);
    if (me.down.empty()) return false;
    const ControlMessage entry = std::move(me.down.front());
    me.down.pop_front();
    apply(rank, entry);
    return true;
  }

  void apply(int rank, const ControlMessage& entry);
  void apply_define(int rank, const Define& define);
  void apply_evict(int rank, const Evict& evict);
  void end_use(int rank, const std::string& text, Code code);
  void check_consent(const ControlMessage& entry);

  Shape shape_;
  Plan plan_;
  std::mt19937 random_;
  std::vector<Member> members_;
  std::vector<Node> nodes_;
  Coordinator coordinator_;
  std::map<std::string, int> decided_;  ///< Uses of each name that the root has ended.
};

}  // namespace hvd::protocol_model

#include "protocol_model_log.h"
