// SPDX-License-Identifier: Apache-2.0
#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

/// For the libstdc++ that a wheel links in: it asks glibc for this, which has it since 2.36 only.
extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t word = 0;
  while (::getrandom(&word, sizeof word, 0) != static_cast<ssize_t>(sizeof word)) {
    if (errno != EINTR) std::abort();  // as glibc's own: a bad number is worse
  }
  return word;
}
