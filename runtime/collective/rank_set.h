// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hvd {

/// A set of ranks 0..size-1, one bit each. One thread at a time.
class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(int size) : words_((static_cast<std::size_t>(size) + 63) / 64) {}
  static RankSet all(int size) {
    RankSet set(size);
    for (int rank = 0; rank < size; ++rank) set.add(rank);
    return set;
  }

  void add(int rank) { word(rank) |= bit(rank); }
  bool contains(int rank) const {
    const auto index = static_cast<std::size_t>(rank) / 64;
    return index < words_.size() && (words_[index] & bit(rank)) != 0;
  }
  void add_all(const RankSet& other) {
    for (std::size_t i = 0; i < words_.size() && i < other.words_.size(); ++i) {
      words_[i] |= other.words_[i];
    }
  }
  /// The members of this set that are not in `other`.
  RankSet without(const RankSet& other) const {
    RankSet rest = *this;
    for (std::size_t i = 0; i < words_.size() && i < other.words_.size(); ++i) {
      rest.words_[i] &= ~other.words_[i];
    }
    return rest;
  }
  /// The members of both sets.
  RankSet common(const RankSet& other) const {
    RankSet both = *this;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      both.words_[i] &= i < other.words_.size() ? other.words_[i] : 0;
    }
    return both;
  }
  void clear() {
    for (auto& word : words_) word = 0;
  }
  int count() const {
    int total = 0;
    for (const auto word : words_) total += std::popcount(word);
    return total;
  }
  bool empty() const { return count() == 0; }
  /// The ranks in ascending order.
  std::vector<int> ranks() const {
    std::vector<int> list;
    for (int rank = 0; rank < static_cast<int>(words_.size()) * 64; ++rank) {
      if (contains(rank)) list.push_back(rank);
    }
    return list;
  }
  const std::vector<std::uint64_t>& words() const { return words_; }
  /// As read from a message: cut or padded to `size` ranks.
  static RankSet from_words(std::vector<std::uint64_t> words, int size) {
    RankSet set;
    set.words_ = std::move(words);
    set.words_.resize((static_cast<std::size_t>(size) + 63) / 64);
    const auto used = static_cast<unsigned>(size) % 64;
    if (used != 0) set.words_.back() &= (std::uint64_t{1} << used) - 1;
    return set;
  }
  bool operator==(const RankSet&) const = default;

 private:
  static std::uint64_t bit(int rank) {
    return std::uint64_t{1} << (static_cast<unsigned>(rank) % 64);
  }
  std::uint64_t& word(int rank) { return words_[static_cast<std::size_t>(rank) / 64]; }
  std::vector<std::uint64_t> words_;
};

/// "rank 3" or "ranks 0-2, 5".
std::string describe_ranks(const RankSet& set);
/// "[0, 2, 3]"
std::string describe_list(const std::vector<int>& ranks);

}  // namespace hvd
