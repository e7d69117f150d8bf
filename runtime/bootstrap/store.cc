// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/store.h"

namespace hvd {

std::string name_ranks(std::span<const int> ranks) {
  constexpr std::size_t kNamed = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kNamed; ++i) {
    if (i > 0) text += ", ";
    text += format_text("{}", ranks[i]);
  }
  if (ranks.size() > kNamed) text += format_text(" and {} more", ranks.size() - kNamed);
  return text;
}

Result<std::vector<std::string>> Store::allgather(std::string_view round, int rank, int size,
                                                  std::string_view value, Deadline deadline) {
  HVD_TRY(set(format_text("{}/{}", round, rank), value, deadline));
  std::vector<std::string> values;
  std::vector<int> missing;
  for (int peer = 0; peer < size; ++peer) {
    auto got = wait(format_text("{}/{}", round, peer), deadline);
    if (got.is_ok()) {
      values.push_back(std::move(got).value());
    } else if (got.status().code() == Code::kTimeout) {
      missing.push_back(peer);
    } else {
      return got.status();
    }
  }
  if (missing.empty()) return values;
  return error(Code::kTimeout, "{} of {} did not come", name_ranks(missing), size);
}

}  // namespace hvd
