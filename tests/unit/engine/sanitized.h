// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd {

/// True where a model has fewer orders to look at, as each takes ten times as long. gcc says that
/// it sanitizes; clang compiles tests for no other purpose here.
#if defined(__SANITIZE_THREAD__) || defined(__clang__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

}  // namespace hvd
