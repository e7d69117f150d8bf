// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/restarts.h"

#include "base/format.h"

namespace hvd {

std::optional<std::string> Restarts::refuse(int place, const std::string& host,
                                            Clock::duration lived) {
  if (limit_ == 0) return std::string();
  ++losses_;
  const int of_host = ++host_losses_[host];
  int& crashes = crashes_[place];
  crashes = lived < kSoon ? crashes + 1 : 0;
  if (used_ == limit_) {
    return format_text("it is not started again: --restarts {} {} used up", limit_,
                       limit_ == 1 ? "is" : "are");
  }
  if (crashes >= kMostCrashes) {
    return format_text("it is not started again: {} times in a row it has ended within {} s",
                       crashes, kSoon.count());
  }
  if (hosts_ > 1 && of_host >= kMostOfHost && 2 * of_host > losses_) {
    return format_text(
        "it is not started again: {} of {} losses were on {}, look at it, or leave it out "
        "(--exclude={})",
        of_host, losses_, host, host);
  }
  ++used_;
  return std::nullopt;
}

}  // namespace hvd
