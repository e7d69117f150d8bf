// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/file_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <memory>

#include "base/unique_fd.h"

namespace hvd {
namespace {

constexpr std::size_t kMaxFile = std::size_t{64} * 1024;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view take_digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view x = take_digits(a);
      const std::string_view y = take_digits(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      continue;
    }
    if (a.front() != b.front()) return a.front() < b.front();
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.empty() && !b.empty();
}

std::string FileTree::read(std::string_view path) const {
  const std::string full = root_ + std::string(path);
  // sysfs has attributes whose reading may block or fail (the speed of a link that is down).
  const UniqueFd file(::open(full.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text;
  if (file.get() < 0) return text;
  text.resize(4096);
  std::size_t size = 0;
  while (size < kMaxFile) {
    if (size == text.size()) text.resize(std::min(kMaxFile, text.size() * 2));
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == ' ')) --size;
  text.resize(size);
  return text;
}

long long FileTree::read_number(std::string_view path, long long otherwise) const {
  const std::string text = read(path);
  long long value = otherwise;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() ? value : otherwise;
}

std::vector<std::string> FileTree::list(std::string_view path) const {
  std::vector<std::string> names;
  const std::string full = root_ + std::string(path);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(full.c_str()), ::closedir);
  if (folder == nullptr) return names;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone.
  while (const dirent* entry = ::readdir(folder.get())) {
    std::string name(static_cast<const char*>(entry->d_name));
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

std::string FileTree::resolve(std::string_view path) const {
  const std::string full = root_ + std::string(path);
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(full.c_str(), nullptr), std::free);
  return real == nullptr ? std::string() : std::string(real.get());
}

std::string FileTree::target_name(std::string_view path) const {
  const std::string real = resolve(path);
  return real.substr(real.rfind('/') + 1);
}

}  // namespace hvd
