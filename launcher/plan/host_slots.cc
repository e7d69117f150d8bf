// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/host_slots.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <thread>

#include "base/format.h"
#include "launcher/cluster/capture.h"
#include "launcher/cluster/slurm_record.h"
#include "launcher/console/message.h"

namespace hvd {
namespace {

constexpr int kMostSlots = 65536;
constexpr std::chrono::seconds kCallPause{1};       ///< Between two calls.
constexpr std::chrono::seconds kCallLimit{30};      ///< For one.
constexpr std::chrono::seconds kQuietTime{5};       ///< Without a word.
constexpr std::chrono::seconds kSlotPatience{600};  ///< As horovodrun has for the first hosts.

std::string_view without_blanks(std::string_view line) {
  line = line.substr(0, line.find('#'));
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = line.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlanks) - first + 1);
}

Result<HostSlots> parse_line(std::string_view line, int slots_per_host) {
  const std::size_t colon = line.rfind(':');
  // More than one is an IPv6 address without a number.
  if (colon == std::string_view::npos || line.find(':') != colon) {
    return HostSlots{std::string(line), slots_per_host};
  }
  const std::string_view digits = line.substr(colon + 1);
  int slots = -1;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), slots);
  const bool is_number = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  if (colon == 0 || !is_number || slots < 0 || slots > kMostSlots) {
    return error(Code::kInvalidArgument,
                 "--host-discovery-script: it printed '{}', and each line is to be HOST or "
                 "HOST:SLOTS",
                 line.substr(0, 80));
  }
  return HostSlots{std::string(line.substr(0, colon)), slots};
}

std::string_view short_name(std::string_view host) { return host.substr(0, host.find('.')); }

bool is_here(const std::string& named, const std::string& host) {
  constexpr std::array<std::string_view, 4> kLocal{"localhost", "127.0.0.1", "::1",
                                                   "localhost.localdomain"};
  if (std::find(kLocal.begin(), kLocal.end(), named) != kLocal.end() || named == host) return true;
  const bool is_address = named.find_first_not_of("0123456789.") == std::string::npos;
  return !is_address && short_name(named) == short_name(host);
}

/// So many slots the job needs to start.
int slots_needed(const RunOptions& options) {
  return options.ranks.value_or(options.min_ranks.value_or(1));
}

}  // namespace

std::string describe_others(const SlotsHere& slots) {
  constexpr std::size_t kNamed = 3;
  std::string names;
  for (std::size_t i = 0; i < std::min(slots.others.size(), kNamed); ++i) {
    names += (i == 0 ? "" : ", ") + slots.others[i];
  }
  if (slots.others.size() > kNamed) names += ", ...";
  return format_text("on {} hvdrun starts nothing: ranks on other hosts need a job of Slurm",
                     names);
}

Result<std::vector<HostSlots>> parse_host_slots(std::string_view text, int slots_per_host) {
  std::vector<HostSlots> hosts;
  for (const std::string_view whole : lines_of(text)) {
    const std::string_view line = without_blanks(whole);
    if (line.empty()) continue;
    HVD_TRY_ASSIGN(HostSlots host, parse_line(line, slots_per_host));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

SlotsHere slots_of(const std::vector<HostSlots>& hosts, const std::string& host) {
  SlotsHere here;
  for (const HostSlots& named : hosts) {
    if (is_here(named.host, host)) {
      here.slots = std::min(here.slots + named.slots, kMostSlots);
    } else {
      here.others.push_back(named.host);
    }
  }
  return here;
}

Result<SlotsHere> ask_for_slots(const RunOptions& options, const std::string& host,
                                const Environment& environment, Deadline deadline, int interrupt) {
  const auto answer = capture_output({"sh", "-c", options.host_discovery}, environment,
                                     deadline.earlier(Deadline::after(kCallLimit)), interrupt);
  if (!answer.is_ok()) return answer.status().with_context("--host-discovery-script");
  HVD_TRY_ASSIGN(const auto hosts, parse_host_slots(answer.value(), options.slots_per_host));
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
