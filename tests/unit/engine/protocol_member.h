// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/leader.h"
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
  if (const auto* failure = std::get_if<Failure>(&entry)) return "fail " + failure->name;
  if (const auto* left = std::get_if<Left>(&entry)) return format_text("left {}", left->rank);
  if (std::holds_alternative<Shutdown>(entry)) return "shutdown";
  std::string text = "run " + std::get<hvd::Run>(entry).name;
  for (const auto id : std::get<hvd::Run>(entry).ids) text += format_text(" {}", id);
  return text;
}

}  // namespace hvd::protocol_model
