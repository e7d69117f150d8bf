// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/host_discovery.h"

#include <chrono>
#include <thread>

#include "base/format.h"
#include "launcher/console/message.h"
#include "launcher/run/capture.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kCallPause{1};       ///< Between two calls.
constexpr std::chrono::seconds kCallLimit{30};      ///< For one.
constexpr std::chrono::seconds kQuietTime{5};       ///< Without a word.
constexpr std::chrono::seconds kSlotPatience{600};  ///< As horovodrun has for the first hosts.

/// So many slots the job needs to start.
int slots_needed(const RunOptions& options) {
  return options.ranks.value_or(options.min_ranks.value_or(1));
}

Result<std::string> call_script(const std::string& script, const Environment& environment,
                                Deadline deadline, int interrupt) {
  HVD_TRY_ASSIGN(Captured answer,
                 capture_contained({"sh", "-c", script}, environment, deadline, interrupt));
  return output_of(std::move(answer), "sh");
}

}  // namespace

Result<SlotsHere> ask_for_slots(const RunOptions& options, const std::string& host,
                                const Environment& environment, Deadline deadline, int interrupt) {
  const auto text = call_script(options.host_discovery, environment,
                                deadline.earlier(Deadline::after(kCallLimit)), interrupt);
  if (!text.is_ok()) return text.status().with_context("--host-discovery-script");
  HVD_TRY_ASSIGN(const auto hosts, parse_host_slots(text.value(), options.slots_per_host));
  return slots_of(hosts, host);
}

Result<SlotsHere> await_slots(const RunOptions& options, const std::string& host,
                              const Environment& environment) {
  const Deadline deadline = Deadline::after(kSlotPatience);
  Deadline quiet = Deadline::after(kQuietTime);
  while (true) {
    HVD_TRY_ASSIGN(const SlotsHere found, ask_for_slots(options, host, environment, deadline));
    if (found.slots >= slots_needed(options) || options.dry_run) return found;
    const std::string others = found.others.empty() ? "" : "; " + describe_others(found);
    const std::string state = format_text(
        "--host-discovery-script: this machine ({}) has {} slot{}, and the job needs {}"
        " to start{}",
        host, found.slots, found.slots == 1 ? "" : "s", slots_needed(options), others);
    if (deadline.has_passed())
      return error(Code::kTimeout, "{}; {} s were long enough", state, kSlotPatience.count());
    if (quiet.has_passed()) {
      print_message(state + "; hvdrun waits");
      quiet = kForever;
    }
    std::this_thread::sleep_for(kCallPause);
  }
}

}  // namespace hvd
