// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/protocol/leader.h"
#include "protocol_plan.h"

namespace hvd::protocol_model {

/// One rank, as runtime/engine/negotiation.cc: its names, its bits, its place in the log.
struct Member {
  struct Name {
    std::optional<std::uint32_t> id;
    Description described;
    std::optional<int> current;
    std::deque<int> queued;
    bool in_full = false;  ///< The last use failed.
  };
  std::map<std::string, Name> names;
  std::map<std::uint32_t, std::string> name_of_id;
  std::vector<std::string> to_submit;
  std::map<std::string, int> submitted;
  std::map<std::string, int> announced;
  std::map<std::string, std::vector<Code>> outcomes;
  std::vector<std::string> log;
  bool has_said_join = false;
  bool joined = false;  ///< By the log.
  bool join_is_over = false;
  bool has_left = false;
  bool over = false;
  std::vector<std::set<std::string>> buckets;  ///< Of process set 0; none while not frozen.
  bool has_urged = false;
  int times_frozen = 0;
  int times_evicted = 0;
  std::vector<Owed> owed() const {
    std::vector<Owed> list;
    for (const auto& [text, name] : names) {
      if (name.queued.empty()) continue;
      const auto uses = static_cast<std::uint32_t>(name.queued.size());
      list.push_back({set_of(text), name_of(text), uses});
    }
    return list;
  }
  void freeze(const Frozen& frozen) {
    ++times_frozen;
    has_urged = false;
    buckets.clear();
    std::size_t begin = 0;
    for (const auto end : frozen.ends) {
      auto& bucket = buckets.emplace_back();
      for (; begin < end; ++begin) bucket.insert(name_of_id.at(frozen.ids[begin]));
    }
  }
  bool has_part_of_a_bucket() const {
    return std::any_of(buckets.begin(), buckets.end(), [this](const auto& bucket) {
      std::size_t submitted = 0;
      for (const std::string& text : bucket) {
        const auto found = names.find(text);
        submitted += found != names.end() && found->second.current ? 1 : 0;
      }
      return submitted > 0 && submitted < bucket.size();
    });
  }
  // Edges to and from the leader of the node.
  std::set<std::uint32_t> bits;
  std::deque<ControlMessage> up;
  std::deque<ControlMessage> down;
};

struct Node {
  std::unique_ptr<Leader> leader;
  std::deque<ControlMessage> up;    ///< To the parent.
  std::deque<ControlMessage> down;  ///< From the parent.
  int heard_from_below = 0;         ///< Messages, and looks at a member's changed bits.
  int heard_from_above = 0;
};

inline std::string text_of(const ControlMessage& entry) {
  if (const auto* added = std::get_if<SetAdded>(&entry)) {
    return format_text("set {}", added->process_set);
  }
  if (const auto* joined = std::get_if<Joined>(&entry)) {
    return format_text("joined {}", joined->rank);
  }
  if (const auto* end = std::get_if<JoinEnd>(&entry))
    return format_text("end of join {}", end->rank);
  if (const auto* removed = std::get_if<SetRemoved>(&entry)) {
    return format_text("no set {}", removed->process_set);
  }
  if (const auto* define = std::get_if<Define>(&entry)) return "define " + define->name;
  if (const auto* thawed = std::get_if<Thawed>(&entry)) return "thaw: " + thawed->text;
  if (const auto* frozen = std::get_if<Frozen>(&entry)) {
    return format_text("freeze {}", frozen->ids.size());
  }
  if (const auto* evict = std::get_if<Evict>(&entry)) {
    return format_text("evict {} ids from {}", evict->ids.size(), evict->ids.front());
  }
  if (const auto* failure = std::get_if<Failure>(&entry)) return "fail " + failure->name;
  if (const auto* left = std::get_if<Left>(&entry)) return format_text("left {}", left->rank);
  if (std::holds_alternative<Shutdown>(entry)) return "shutdown";
  std::string text = "run " + std::get<hvd::Run>(entry).name;
  for (const auto id : std::get<hvd::Run>(entry).ids) text += format_text(" {}", id);
  return text;
}

}  // namespace hvd::protocol_model
