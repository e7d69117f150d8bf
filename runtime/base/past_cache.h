// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace hvd {

/// As memcpy, for targets that are larger than the caches: what is overwritten is not read first,
/// and what is written does not drive other things out of them.
void copy_past_cache(void* target, const void* source, std::size_t bytes);

}  // namespace hvd
