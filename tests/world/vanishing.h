// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <span>

namespace hvd {

/// Floats that cannot be reached any more once their owner has ended: whoever reads or writes them
/// later ends the program, with a sanitizer or without.
class Vanishing {
 public:
  explicit Vanishing(std::size_t count) : bytes_(count * sizeof(float)) {
    void* const memory =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    values_ = {static_cast<float*>(memory), count};
  }
  Vanishing(const Vanishing&) = delete;
  Vanishing& operator=(const Vanishing&) = delete;
  /// The addresses stay taken, so that nothing else comes to lie there.
  ~Vanishing() {
    if (::mmap(values_.data(), bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
      std::abort();
  }

  std::span<float> values() const { return values_; }

 private:
  std::size_t bytes_;
  std::span<float> values_;
};

}  // namespace hvd
