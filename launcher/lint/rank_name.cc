// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/rank_name.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "launcher/lint/word_table.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

using Words = std::vector<std::string>;

bool is_upper(char letter) { return letter >= 'A' && letter <= 'Z'; }
bool is_lower(char letter) { return letter >= 'a' && letter <= 'z'; }

std::string lowered(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return lower;
}

/// The place of two words that follow each other; the number of words: they do not.
std::size_t place_of_pair(const Words& words, std::string_view first, std::string_view second) {
  for (std::size_t at = 0; at + 1 < words.size(); ++at) {
    if (words[at] == first && words[at + 1] == second) return at;
  }
  return words.size();
}

bool has_pair(const Words& words, std::string_view first, std::string_view second) {
  return place_of_pair(words, first, second) < words.size();
}

/// Whether word `at` is the rank of a process, and not of a matrix, a page or a peer.
bool is_rank_word(const Words& words, std::size_t at) {
  constexpr std::array<std::string_view, 11> kWords{
      "rank",     "rank0",      "myrank",    "localrank", "worldrank", "mpirank",
      "noderank", "globalrank", "crossrank", "procrank",  "hvdrank"};
  constexpr std::array<std::string_view, 44> kOthersBefore{
      "lora",   "ra",      "dora", "low",   "full",    "matrix",  "tensor", "max",   "min",
      "target", "adapter", "svd",  "tt",    "cp",      "tucker",  "page",   "re",    "search",
      "galore", "lokr",    "loha", "query", "item",    "doc",     "token",  "score", "mean",
      "avg",    "top",     "k",    "q",     "v",       "kv",      "r",      "num",   "reduced",
      "root",   "src",     "dst",  "peer",  "numeric", "average", "source", "remote"};
  constexpr std::array<std::string_view, 13> kOthersAfter{
      "loss",   "correlation", "score", "ratio",   "pattern", "alpha", "list",
      "metric", "order",       "k",     "dropout", "dim",     "size"};
  if (!is_listed(kWords, words[at])) return false;
  if (at > 0 && is_listed(kOthersBefore, words[at - 1])) return false;
  return at + 1 >= words.size() || !is_listed(kOthersAfter, words[at + 1]);
}

/// "is_main", alone or followed by what is the main one: not "is_main_branch".
bool says_is_first(const Words& words) {
  constexpr std::array<std::string_view, 6> kFirsts{"main",  "master",  "root",
                                                    "chief", "primary", "leader"};
  constexpr std::array<std::string_view, 9> kWho{"process", "proc", "worker", "gpu",    "device",
                                                 "host",    "node", "task",   "replica"};
  for (const std::string_view first : kFirsts) {
    const std::size_t at = place_of_pair(words, "is", first);
    if (at + 2 == words.size()) return true;
    if (at + 2 < words.size() && is_listed(kWho, words[at + 2])) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> words_of_name(std::string_view name) {
  Words words;
  std::string word;
  for (std::size_t at = 0; at <= name.size(); ++at) {
    const bool is_end = at == name.size() || name[at] == '_';
    const bool is_hump = !is_end && at > 0 && is_upper(name[at]) && is_lower(name[at - 1]);
    if ((is_end || is_hump) && !word.empty()) {
      words.push_back(lowered(word));
      word.clear();
    }
    if (!is_end) word += name[at];
  }
  return words;
}

bool is_rank_name(std::string_view name) {
  const Words words = words_of_name(name);
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (is_rank_word(words, at)) return true;
  }
  if (words == Words{"primary"} || words == Words{"is", "first"}) return true;
  return says_is_first(words) || has_pair(words, "main", "process") ||
         has_pair(words, "master", "process") || has_pair(words, "primary", "process") ||
         has_pair(words, "global", "zero") || has_pair(words, "world", "zero") ||
         has_pair(words, "process", "zero");
}

bool is_share_name(std::string_view name) {
  if (is_rank_name(name)) return true;
  const Words words = words_of_name(name);
  if (words == Words{"size"} || words == Words{"world", "size"}) return true;
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word.starts_with("shard"); });
}

bool is_rank_variable(std::string_view name) {
  const bool is_launchers = std::any_of(
      kLaunchSources.begin(), kLaunchSources.end(),
      [&](const LaunchSource& source) { return name == source.rank || name == source.local_rank; });
  return (is_launchers && !name.empty()) || name == "PMI_ID" || is_rank_name(name);
}

bool is_name_for_one_rank(std::string_view name) {
  const Words words = words_of_name(name);
  if (is_listed(words, "rank0")) return true;
  for (const char* first : {"rank", "main", "master", "primary", "chief", "root"}) {
    for (const char* second : {"zero", "0", "only", "process"}) {
      if (has_pair(words, first, second)) return true;
    }
    for (const char* before : {"on", "only", "if", "is"}) {
      if (has_pair(words, before, first)) return true;
    }
  }
  return false;
}

}  // namespace hvd
