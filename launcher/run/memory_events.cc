// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/memory_events.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/format.h"

namespace hvd {
namespace {

constexpr std::string_view kMounts = "/sys/fs/cgroup";
/// The first version of control groups says "no limit" by the largest number of whole pages.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 60;

std::optional<std::uint64_t> number_in(const std::string& text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

/// The number after the word `key` in a file of "key number" lines.
std::optional<std::uint64_t> read_count(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string word, number; file >> word >> number;) {
    if (word == key) return number_in(number);
  }
  return std::nullopt;
}

std::string in_bytes(std::uint64_t bytes) {
  constexpr double kMebi = 1024.0 * 1024.0;
  const double mebi = static_cast<double>(bytes) / kMebi;
  return mebi < 1024 ? format_text("{:.0f} MiB", mebi) : format_text("{:.1f} GiB", mebi / 1024);
}

bool has_grown(std::optional<std::uint64_t> before, std::optional<std::uint64_t> now) {
  return before && now && *now > *before;
}

}  // namespace

MemoryEvents::MemoryEvents(std::string root)
    : root_(std::move(root)), group_(find_group()), before_(count()), last_(before_) {}

/// Lines of /proc/self/cgroup: "4:memory:/path" (first version), "0::/path" (second).
MemoryEvents::Group MemoryEvents::find_group() const {
  Group found;
  std::ifstream file(root_ + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_first_version = controllers.find(",memory,") != std::string::npos;
    if (!is_first_version && controllers != ",,") continue;
    const std::string mount = root_ + std::string(kMounts) + (is_first_version ? "/memory" : "");
    std::string folder = mount + line.substr(second + 1);
    // A container may see its own group alone, at the top.
    std::error_code failure;
    if (!std::filesystem::is_directory(folder, failure)) folder = mount;
    if (folder.ends_with('/')) folder.pop_back();
    if (is_first_version) return {folder, true};
    found.folder = folder;
  }
  return found;
}

MemoryEvents::Counts MemoryEvents::count() const {
  const char* const file = group_.is_first_version ? "/memory.oom_control" : "/memory.events";
  return {group_.folder.empty() ? std::nullopt : read_count(group_.folder + file, "oom_kill"),
          read_count(root_ + "/proc/vmstat", "oom_kill")};
}

/// The smallest limit of the group and those around it.
std::string MemoryEvents::describe_limit() const {
  const char* const file = group_.is_first_version ? "memory.limit_in_bytes" : "memory.max";
  const std::filesystem::path top = root_ + std::string(kMounts);
  std::optional<std::uint64_t> least;
  std::filesystem::path where;
  bool is_top = false;
  for (std::filesystem::path at = group_.folder; !is_top; at = at.parent_path()) {
    is_top = at == top || !at.has_relative_path();
    std::ifstream limit(at / file);
    std::string text;
    limit >> text;
    const auto bytes = number_in(text);
    if (!bytes || *bytes >= kNoLimit || (least && *least <= *bytes)) continue;
    least = bytes;
    where = at;
  }
  if (!least) return format_text("cgroup {}", group_.folder.substr(root_.size()));
  return format_text("cgroup {} has a limit of {}", where.string().substr(root_.size()),
                     in_bytes(*least));
}

void MemoryEvents::advance(Clock::time_point now) {
  if (now - counted_ < kGap) return;
  counted_ = now;
  before_ = std::exchange(last_, count());
}

std::string MemoryEvents::explain_kill() {
  const Counts before = before_;
  before_ = last_ = count();
  if (has_grown(before.group, before_.group)) {
    return ", probably out of memory: " + describe_limit();
  }
  if (has_grown(before.host, before_.host)) {
    return ", probably out of memory: the kernel has just killed a process of this host for that";
  }
  return "";
}

}  // namespace hvd
