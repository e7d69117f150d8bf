// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/host_slots.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

#include "base/format.h"

namespace hvd {
namespace {

constexpr int kMostSlots = 65536;

std::string_view without_blanks(std::string_view line) {
  line = line.substr(0, line.find('#'));
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = line.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlanks) - first + 1);
}

/// A name, or an address.
bool is_host(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.' || c == ':';
  });
}

Result<HostSlots> wrong_line(std::string_view line) {
  return error(Code::kInvalidArgument,
               "--host-discovery-script: it printed '{}', and each line is to be HOST or "
               "HOST:SLOTS",
               line.substr(0, 80));
}

Result<HostSlots> parse_line(std::string_view line, int slots_per_host) {
  if (!is_host(line)) return wrong_line(line);
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
    return wrong_line(line);
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
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = without_blanks(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty()) continue;
    HVD_TRY_ASSIGN(HostSlots host, parse_line(line, slots_per_host));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

SlotsHere slots_of(const std::vector<HostSlots>& hosts, const std::string& host) {
  SlotsHere here;
  here.names_hosts = !hosts.empty();
  for (const HostSlots& named : hosts) {
    if (is_here(named.host, host)) {
      here.slots = std::min(here.slots + named.slots, kMostSlots);
    } else {
      here.others.push_back(named.host);
    }
  }
  return here;
}

}  // namespace hvd
