// SPDX-License-Identifier: Apache-2.0
/// Memory that the ranks of a node share, for the containers of C++: header only, over hvd.h.
#pragma once

#include <cstddef>
#include <limits>
#include <new>

#include "hvd/collectives.hpp"

namespace hvd {

/// Takes elements from hvd_alloc(), on which collectives work without copying:
///
///     std::vector<float, hvd::SharedAllocator<float>> gradient(count);
///
/// Throws hvd::Error where hvd is not initialised or the memory is used up. What it gave stays
/// valid after the end of the hvd::Context, but must be freed by this process. Other ranks write
/// into it while an operation on it is in flight: declare the container before the hvd::Pending or
/// the optimizer that borrows it, so that it ends after.
template <typename T>
struct SharedAllocator {
  using value_type = T;

  SharedAllocator() = default;
  template <typename U>
  SharedAllocator(const SharedAllocator<U>&) noexcept {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
      throw std::bad_array_new_length();
    void* memory = nullptr;
    check(hvd_alloc(count * sizeof(T), &memory));
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t /*count*/) noexcept { hvd_free(memory); }

  template <typename U>
  bool operator==(const SharedAllocator<U>&) const noexcept {
    return true;
  }
};

}  // namespace hvd
