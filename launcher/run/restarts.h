// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "base/deadline.h"

namespace hvd {

/// Decides whether a process of an elastic job that was lost is started again: as often as the user
/// allows, but not where it would crash for ever, nor on a node that loses more than all others.
/// Not thread-safe.
class Restarts {
 public:
  /// So often in a row a process may end soon after its start.
  static constexpr int kMostCrashes = 3;
  static constexpr std::chrono::seconds kSoon{30};
  /// So many losses make a node suspect that has more than all others together.
  static constexpr int kMostOfHost = 4;

  /// `limit`: in the whole job. `hosts`: how many it has.
  Restarts(int limit, int hosts) : limit_(limit), hosts_(hosts) {}

  /// A process was lost on that host, so long after it had started. `place` names the row of
  /// processes that it is of: the first one's number. Nothing: it is to be started again; else why
  /// it is not, for people; empty: that goes without saying.
  std::optional<std::string> refuse(int place, const std::string& host, Clock::duration lived);

 private:
  int limit_;
  int hosts_;
  int used_ = 0;
  int losses_ = 0;
  std::map<int, int> crashes_;  ///< By place: in a row, soon after the start.
  std::map<std::string, int> host_losses_;
};

}  // namespace hvd
