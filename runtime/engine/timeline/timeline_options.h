// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// Where a timeline goes and what is in it.
struct TimelineOptions {
  /// The file. Every rank writes its own where the name has "{rank}" in it, else rank 0 alone.
  std::string path;
  bool mark_batches = false;  ///< Also when each batch was decided on.
};

}  // namespace hvd
