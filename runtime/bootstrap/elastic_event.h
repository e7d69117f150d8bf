// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "bootstrap/roster.h"

namespace hvd {

/// What the store of an elastic job tells whoever serves it. Processes are numbered for life.

/// The process asks for a place.
struct ProcessEntered {
  int process = 0;
  std::optional<int> lost = {};  ///< The process that it has lost; that may be stopped, or hang.
};
/// The hvdrun beside a process that runs elsewhere is there.
struct ProcessCame {
  int process = 0;
  std::string host;
};
/// It says that the process has ended.
struct ProcessEnded {
  int process = 0;
  int status = 0;        ///< As waitpid gives it.
  std::string why = {};  ///< What is behind that, for people: ", probably out of memory".
};
/// It is gone itself, and has said nothing of an end.
struct ProcessGone {
  int process = 0;
};

using ElasticEvent =
    std::variant<Membership, ProcessEntered, ProcessCame, ProcessEnded, ProcessGone>;

}  // namespace hvd
