// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/bind_options.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hvd {
namespace {

constexpr std::string_view kMapWord = "map:";
constexpr std::size_t kMaxLists = 4096;

constexpr std::array<std::pair<std::string_view, BindPolicy>, 4> kWords{
    {{"cores", BindPolicy::kCores},
     {"numa", BindPolicy::kNuma},
     {"socket", BindPolicy::kSocket},
     {"none", BindPolicy::kNone}}};

Result<std::vector<CpuSet>> parse_map(std::string_view text) {
  std::vector<CpuSet> lists;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t colon = std::min(text.find(':', start), text.size());
    auto list = parse_cpu_set(text.substr(start, colon - start));
    if (!list.is_ok()) {
      return list.status().with_context(
          format_text("--bind map: list {} (local rank {})", lists.size() + 1, lists.size()));
    }
    if (list.value().empty()) {
      return error(Code::kInvalidArgument,
                   "--bind map: list {} (local rank {}) is empty; type one CPU list per local "
                   "rank, as in map:0-9:10-19",
                   lists.size() + 1, lists.size());
    }
    if (lists.size() == kMaxLists) {
      return error(Code::kInvalidArgument, "--bind map: more than {} CPU lists", kMaxLists);
    }
    lists.push_back(std::move(list).value());
    start = colon + 1;
  }
  return lists;
}

}  // namespace

Status parse_bind(std::string_view text, BindOptions& options) {
  if (text.starts_with(kMapWord)) {
    HVD_TRY_ASSIGN(options.map, parse_map(text.substr(kMapWord.size())));
    options.policy = BindPolicy::kMap;
    return Status::ok();
  }
  for (const auto& [word, policy] : kWords) {
    if (word != text) continue;
    options.policy = policy;
    return Status::ok();
  }
  constexpr std::size_t kShown = 80;
  return error(Code::kInvalidArgument,
               "--bind: '{}' is not one of cores, numa, socket, none, map:LIST[:LIST...]",
               text.substr(0, kShown));
}

std::vector<std::string> bind_flags(const BindOptions& options) {
  std::vector<std::string> flags;
  for (const auto& [word, policy] : kWords) {
    if (policy == options.policy) flags = {"--bind", std::string(word)};
  }
  if (options.policy == BindPolicy::kMap) {
    std::string lists = "map";
    for (const CpuSet& list : options.map) lists += ":" + format_cpu_set(list);
    flags = {"--bind", lists};
  }
  if (options.smt == SmtUse::kAll) flags.emplace_back("--smt");
  if (options.smt == SmtUse::kOne) flags.emplace_back("--no-smt");
  if (options.memory == MemoryBind::kLocal) flags.insert(flags.end(), {"--mem-bind", "local"});
  if (options.memory == MemoryBind::kNone) flags.insert(flags.end(), {"--mem-bind", "none"});
  if (options.report) flags.emplace_back("--report-bindings");
  return flags;
}

}  // namespace hvd
