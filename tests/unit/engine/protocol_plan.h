// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/deadline.h"
#include "engine/description.h"

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

/// Every rank submits every use of every name, in an order of its own; the leaver stops early.
struct Plan {
  std::vector<std::string> names{"a", "b", "once"};
  int uses = 3;
  std::map<std::tuple<int, std::string, int>, int> elements;  ///< By rank, name, use; else 1.
  bool all_stay = false;
  int leaver = -1;
  std::map<std::string, int> leaver_uses;  ///< How many uses of each name the leaver submits.

  int uses_of(int rank, const std::string& name) const {
    return rank == leaver ? leaver_uses.at(name) : uses;
  }
  int elements_of(int rank, const std::string& name, int use) const {
    const auto found = elements.find({rank, name, use});
    return found == elements.end() ? 1 : found->second;
  }
  Description description(int rank, const std::string& name, int use) const {
    Description description;
    if (name == "b") description.operation = Broadcast{0};
    description.tensors.push_back({DataType::kFloat32, 0, {elements_of(rank, name, use)}});
    return description;
  }
  /// What must come of a use, on every rank that submits it.
  Code expected(int size, const std::string& name, int use) const {
    if (leaver >= 0 && use >= leaver_uses.at(name)) return Code::kAborted;
    for (int rank = 1; rank < size; ++rank) {
      if (elements_of(rank, name, use) != elements_of(0, name, use)) return Code::kMismatch;
    }
    return Code::kOk;
  }
};

}  // namespace hvd::protocol_model
