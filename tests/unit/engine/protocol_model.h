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

#include "engine/coordinator.h"
#include "engine/leader.h"
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
                     {64, std::chrono::milliseconds(1000)}) {
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
  const Shape& shape() const { return shape_; }

 private:
  bool chance(int one_in) { return random_() % static_cast<unsigned>(one_in) == 0; }
  bool leads(int rank) const { return rank % shape_.local_size == 0; }
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
    if (what == 3) return hear_from_member(rank);
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

  bool hear_from_member(int rank) {
    if (leads(rank)) return false;
    Member& them = member(rank);
    Node& node = at(shape_.node_of(rank));
    if (them.bits.empty() && them.up.empty()) return false;
    if (!them.bits.empty()) ++node.heard_from_below;
    for (const auto id : std::exchange(them.bits, {})) node.leader->member_ready(rank, id, kStart);
    if (them.up.empty() || chance(3)) return true;
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

  void apply(int rank, const ControlMessage& entry) {
    Member& me = member(rank);
    EXPECT_FALSE(me.over) << "an entry after shutdown: " << text_of(entry);
    me.log.push_back(text_of(entry));
    if (const auto* define = std::get_if<Define>(&entry)) {
      const std::string key = key_of(define->description.process_set, define->name);
      me.name_of_id[define->id] = key;
      if (!plan_.has_rank(key, rank)) return;
      Member::Name& name = me.names[key];
      name.id = define->id;
      if (name.current) {
        EXPECT_EQ(define->description, plan_.description(rank, key, *name.current));
      } else {
        EXPECT_TRUE(me.joined) << "rank " << rank << " has not announced " << key;
      }
      name.described = define->description;
    } else if (const auto* run = std::get_if<hvd::Run>(&entry)) {
      for (const auto id : run->ids) {
        EXPECT_EQ(set_of(me.name_of_id.at(id)), run->process_set);
        const auto found = me.names.find(me.name_of_id.at(id));
        if (found != me.names.end()) found->second.in_full = false;
        end_use(rank, me.name_of_id.at(id), Code::kOk);
      }
      if (!run->name.empty()) end_use(rank, key_of(run->process_set, run->name), Code::kOk);
    } else if (const auto* failure = std::get_if<Failure>(&entry)) {
      const std::string key = key_of(failure->process_set, failure->name);
      if (me.names.contains(key)) me.names[key].in_full = true;
      end_use(rank, key, failure->code);
    } else if (const auto* frozen = std::get_if<Frozen>(&entry)) {
      me.freeze(*frozen);
    } else if (std::holds_alternative<Thawed>(entry)) {
      me.buckets.clear();
    } else if (const auto* joined = std::get_if<Joined>(&entry)) {
      me.joined = me.joined || joined->rank == rank;
    } else if (std::holds_alternative<JoinEnd>(entry)) {
      me.joined = false;
      me.join_is_over = true;
    } else if (std::holds_alternative<Shutdown>(entry)) {
      me.over = true;
    }
  }

  void end_use(int rank, const std::string& text, Code code) {
    if (!plan_.has_rank(text, rank)) return;
    Member& me = member(rank);
    const auto found = me.names.find(text);
    if (found == me.names.end() || !found->second.current) {
      if (me.joined) return;  // stands in, or is not concerned
      EXPECT_EQ(code, Code::kAborted) << text << " is over on rank " << rank << " unannounced";
      return;
    }
    Member::Name& name = found->second;
    ASSERT_EQ(*name.current, static_cast<int>(me.outcomes[text].size())) << "uses in order";
    me.outcomes[text].push_back(code);
    name.current.reset();
    if (!name.queued.empty()) {
      name.current = name.queued.front();
      name.queued.pop_front();
      announce(rank, text, name);
    } else if (!name.id) {
      me.names.erase(found);
    }
  }

  /// Promise 2, at the moment of the decision.
  void check_consent(const ControlMessage& entry) {
    if (const auto* failure = std::get_if<Failure>(&entry)) {
      ++decided_[key_of(failure->process_set, failure->name)];
    }
    const auto* run = std::get_if<hvd::Run>(&entry);
    if (run == nullptr) return;
    std::vector<std::string> names;
    for (const auto id : run->ids) names.push_back(member(0).name_of_id.at(id));
    if (!run->name.empty()) names.push_back(key_of(run->process_set, run->name));
    for (const std::string& name : names) {
      const int use = decided_[name]++;
      for (int rank = 0; rank < shape_.size(); ++rank) {
        if (!plan_.has_rank(name, rank)) continue;
        if (member(rank).has_said_join && member(rank).submitted[name] <= use) continue;
        EXPECT_GT(member(rank).announced[name], use)
            << name << " runs without the word of rank " << rank;
      }
    }
  }

  Shape shape_;
  Plan plan_;
  std::mt19937 random_;
  std::vector<Member> members_;
  std::vector<Node> nodes_;
  Coordinator coordinator_;
  std::map<std::string, int> decided_;  ///< Uses of each name that the root has ended.
};

}  // namespace hvd::protocol_model
