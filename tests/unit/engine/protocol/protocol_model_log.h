// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a member of the model does with the log, as runtime/engine/negotiation_log.cc.
#include "protocol_model.h"

namespace hvd::protocol_model {

inline void Model::apply(int rank, const ControlMessage& entry) {
  Member& me = member(rank);
  EXPECT_FALSE(me.over) << "an entry after shutdown: " << text_of(entry);
  me.log.push_back(text_of(entry));
  if (const auto* define = std::get_if<Define>(&entry)) {
    apply_define(rank, *define);
  } else if (const auto* evict = std::get_if<Evict>(&entry)) {
    apply_evict(rank, *evict);
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

inline void Model::end_use(int rank, const std::string& text, Code code) {
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
inline void Model::check_consent(const ControlMessage& entry) {
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

inline void Model::apply_define(int rank, const Define& define) {
  Member& me = member(rank);
  const std::string key = key_of(define.description.process_set, define.name);
  me.name_of_id[define.id] = key;
  if (!plan_.has_rank(key, rank)) return;
  Member::Name& name = me.names[key];
  name.id = define.id;
  if (name.current) {
    EXPECT_EQ(define.description, plan_.description(rank, key, *name.current));
  } else {
    EXPECT_TRUE(me.joined) << "rank " << rank << " has not announced " << key;
  }
  name.described = define.description;
}

inline void Model::apply_evict(int rank, const Evict& evict) {
  Member& me = member(rank);
  ++me.times_evicted;
  for (const auto id : evict.ids) {
    const auto found = me.names.find(me.name_of_id.at(id));
    if (found == me.names.end()) continue;
    found->second.id.reset();
    if (!found->second.current) me.names.erase(found);
  }
  if (!me.has_left) say_up(rank, Evicted{1});
}

}  // namespace hvd::protocol_model
