// SPDX-License-Identifier: Apache-2.0
#include "launcher/preempt/read_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace hvd {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFolders = 2000;

}  // namespace

ReadWatch::ReadWatch(const std::string& folder)
    : events_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)), works_(events_.is_open()) {
  watch(folder, "");
  std::error_code failure;
  fs::recursive_directory_iterator entries(folder, fs::directory_options::skip_permission_denied,
                                           failure);
  for (; !failure && entries != fs::recursive_directory_iterator(); entries.increment(failure)) {
    std::error_code unknown;
    if (!entries->is_directory(unknown) || entries->is_symlink(unknown)) continue;
    if (folders_.size() >= kMostFolders) works_ = false;
    if (!works_) return;
    watch(entries->path().string(), entries->path().lexically_relative(folder).string() + "/");
  }
}

void ReadWatch::watch(const std::string& path, const std::string& name) {
  // A file that is mapped is not read in the kernel's words, but closed without having been
  // written.
  constexpr std::uint32_t kReads = IN_ACCESS | IN_CLOSE_NOWRITE | IN_ONLYDIR;
  const int number = ::inotify_add_watch(events_.get(), path.c_str(), kReads);
  works_ = works_ && number >= 0;
  if (number >= 0) folders_[number] = name;
}

std::set<std::string> ReadWatch::take() {
  std::set<std::string> names;
  alignas(inotify_event) std::array<char, 16384> buffer;
  while (true) {
    const ssize_t got = ::read(events_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return names;
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, offsetof(inotify_event, name));
      const char* const name = buffer.data() + at + offsetof(inotify_event, name);
      const auto folder = folders_.find(event.wd);
      const bool is_file = (event.mask & IN_ISDIR) == 0 && event.len > 0;
      if (is_file && folder != folders_.end()) names.insert(folder->second + name);
      at += offsetof(inotify_event, name) + event.len;
    }
  }
}

}  // namespace hvd
