// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvd {

/// One host as a discovery script names it.
struct HostSlots {
  std::string host;
  int slots = 1;  ///< Ranks that may run there.
};

/// The hosts of a script's answer, "HOST" or "HOST:SLOTS" a line; empty lines and what follows '#'
/// do not count. `slots_per_host`: where a line has no number. Pure.
Result<std::vector<HostSlots>> parse_host_slots(std::string_view text, int slots_per_host);

/// What the hosts mean for the machine of that name.
struct SlotsHere {
  int slots = 0;
  bool names_hosts = false;         ///< There was a line at all.
  std::vector<std::string> others;  ///< Hosts on which hvdrun starts nothing.
};

/// That nothing starts on the others, for people.
std::string describe_others(const SlotsHere& slots);

/// localhost and each spelling of `host` is this machine. Pure.
SlotsHere slots_of(const std::vector<HostSlots>& hosts, const std::string& host);

}  // namespace hvd
