// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hvd {

/// What one line of the backend table says about a batch.
struct BackendAnswer {
  std::string_view name;
  Status status;      ///< Of create() or supports().
  std::string reach;  ///< Why it fits, where it accepts: as Backend::reach().
};

/// The backend chosen for a kind of batch, and why.
struct Selection {
  std::optional<std::size_t> index;  ///< Into the answers; nothing when all declined.
  std::string reason;                ///< One sentence.
};

/// The first backend that accepts, in the order of the answers; `wanted` (HVD_BACKEND, empty for
/// any) leaves only the backend of that name. Pure: equal answers give equal choices on all ranks.
Selection select_backend(std::span<const BackendAnswer> answers, std::string_view wanted);

}  // namespace hvd
