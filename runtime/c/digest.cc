// SPDX-License-Identifier: Apache-2.0
#include "optim/digest.h"

#include <cstddef>

#include "hvd/gradients.h"

uint64_t hvd_digest(const void* data, size_t bytes, uint64_t seed) noexcept {
  return hvd::digest({static_cast<const std::byte*>(data), bytes}, seed);
}
