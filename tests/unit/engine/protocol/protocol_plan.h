// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "engine/protocol/board.h"
#include "engine/request/description.h"

namespace hvd::protocol_model {

inline constexpr int kFanOut = 4;
inline constexpr Clock::time_point kStart{};

struct Shape {
  int nodes = 1;
  int local_size = 1;
  int size() const { return nodes * local_size; }
  int node_of(int rank) const { return rank / local_size; }
  std::vector<int> children(int node) const {
    std::vector<int> list;
    for (int i = 1; i < nodes; ++i) {
      if ((i - 1) / kFanOut == node) list.push_back(i);
    }
    return list;
  }
  RankSet subtree(int node) const {
    RankSet set(size());
    for (int i = 0; i < local_size; ++i) set.add(node * local_size + i);
    for (const int child : children(node)) set.add_all(subtree(child));
    return set;
  }
};

/// The model's key of a name: "a" in the set of all ranks, "2/a" in process set 2.
inline std::string key_of(int process_set, const std::string& name) {
  return process_set == 0 ? name : format_text("{}/{}", process_set, name);
}
inline int set_of(const std::string& key) {
  return key.find('/') == std::string::npos ? 0 : key.front() - '0';
}
inline std::string name_of(const std::string& key) {
  return set_of(key) == 0 ? key : key.substr(2);
}

/// What the protocol must not do, to see that the model finds it.
enum class Mutant {
  kNone,
  kFreesAtOnce,          ///< An evicted id is free before the ranks have answered.
  kAnswerOvertakesBits,  ///< A leader hears that answer before bits that were set earlier.
};

/// Every rank submits every use of every name of its process sets, or some of them, in an order of
/// its own. Who leaves early or joins goes with uses in flight and in queues.
struct Plan {
  std::vector<std::string> names{"a", "b", "once"};
  std::vector<RankSet> sets;  ///< From process set 1 on.
  int uses = 3;
  std::map<std::tuple<int, std::string, int>, int> elements;  ///< By rank, name, use; else 1.
  bool on_gpu = false;                                        ///< The allreduces.
  bool in_steps = false;  ///< Ranks submit the uses of all names one after the other.
  /// Not empty: what each rank submits, in this order and with two of it in flight at most.
  std::vector<std::string> program;
  bool all_stay = false;
  bool all_join = false;  ///< All ranks but leavers join after their uses, and then leave.
  std::set<int> leavers;
  std::uint32_t ids = Board::kMaxIds;
  std::uint64_t idle_uses = 4 * std::uint64_t{Board::kMaxIds};
  Mutant mutant = Mutant::kNone;
  std::map<std::pair<int, std::string>, int> fewer_uses;  ///< Of those who leave or join.

  bool has_rank(const std::string& name, int rank) const {
    const int set = set_of(name);
    return set == 0 || sets[static_cast<std::size_t>(set - 1)].contains(rank);
  }
  int uses_of(int rank, const std::string& name) const {
    if (!has_rank(name, rank)) return 0;
    const auto fewer = fewer_uses.find({rank, name});
    return fewer == fewer_uses.end() ? uses : fewer->second;
  }
  int elements_of(int rank, const std::string& name, int use) const {
    const auto found = elements.find({rank, name, use});
    return found == elements.end() ? 1 : found->second;
  }
  Description description(int rank, const std::string& name, int use) const {
    Description description;
    description.process_set = set_of(name);
    if (name_of(name) == "b") {
      description.operation = Broadcast{0};
    } else if (on_gpu) {
      description.device = DeviceKind::kCuda;
    }
    description.tensors.push_back({DataType::kFloat32, 0, {elements_of(rank, name, use)}});
    return description;
  }
  /// Brings uses together; `list` is submitted from its end, in any order within a step.
  static void sort_by_use(std::vector<std::string>& list) {
    std::map<std::string, int> seen;
    std::vector<std::pair<int, std::string>> steps;
    for (const std::string& name : list) steps.emplace_back(seen[name]++, name);
    std::stable_sort(steps.begin(), steps.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = steps[i].second;
  }
  /// What must come of a use, on every rank that submits it; nothing: that depends on chance.
  std::optional<Code> expected(int size, const std::string& name, int use) const {
    if (all_join && !leavers.empty()) return std::nullopt;
    for (const int rank : leavers) {
      if (has_rank(name, rank) && use >= uses_of(rank, name)) return Code::kAborted;
    }
    for (int rank = 0; rank < size; ++rank) {
      // Only an allreduce goes on without a rank.
      if (all_join && name_of(name) == "b" && use >= uses_of(rank, name)) {
        return Code::kInvalidArgument;
      }
    }
    std::set<int> offered;
    for (int rank = 0; rank < size; ++rank) {
      if (has_rank(name, rank)) offered.insert(elements_of(rank, name, use));
    }
    return offered.size() > 1 ? Code::kMismatch : Code::kOk;
  }
};

}  // namespace hvd::protocol_model
