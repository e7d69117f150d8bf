// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "transport/link.h"

namespace hvd {

/// The connections of this rank within one process set.
struct SetLinks {
  std::span<std::byte> memory;  ///< Of the members on this node: zeroed, 4096-aligned.
  std::shared_ptr<void> owner;  ///< Keeps `memory` mapped.
  /// As Wiring::lane, sockets and lanes, over the nodes of the set.
  std::vector<std::unique_ptr<Link>> lane;
  int sockets = 1;
  int lanes = 0;
};

/// Connects some of the ranks of a job that is wired already, for a process set.
///
/// Each member calls offer(), the offers travel to all members (the job can do that by now), then
/// each calls connect(). One thread at a time, except for interrupt().
class SetWiring {
 public:
  /// Equal on all members, except for `rank` and `deadline`.
  struct Plan {
    std::uint64_t number = 0;  ///< Of the change, counted from 0; never comes again.
    int rank = 0;              ///< Mine, in the job.
    std::vector<std::vector<int>> nodes = {};  ///< Ranks of the job; as in Communicator::nodes.
    std::vector<std::string> offers = {};  ///< By rank of the job; empty for those not in the set.
    std::function<std::size_t(int local_size)> memory_bytes = nullptr;
    Deadline deadline = kForever;
  };

  virtual ~SetWiring() = default;
  /// Opens what the other members will connect to, and says how to reach it.
  virtual Result<std::string> offer() = 0;
  /// Ends the offer, well or not.
  virtual Result<SetLinks> connect(const Plan& plan) = 0;
  /// Ends the offer without a connection.
  virtual void withdraw() = 0;
  /// A peer is lost: connect() fails soon, now and ever after. Thread-safe.
  virtual void interrupt() = 0;
};

}  // namespace hvd
