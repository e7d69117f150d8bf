// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/job_key.h"
#include "transport/node_group.h"

namespace hvd {

/// A Unix socket in the abstract name space: it vanishes with its last descriptor.
class AbstractListener {
 public:
  /// Listens under a random name.
  static Result<AbstractListener> open();
  const std::string& name() const { return name_; }
  int fd() const { return socket_.get(); }
  /// Nobody gets in any more, and whoever waits for a connection gets an error. From any thread.
  void interrupt() const;
  static Result<UniqueFd> connect(const std::string& name, Deadline deadline);

 private:
  AbstractListener(UniqueFd socket, std::string name)
      : socket_(std::move(socket)), name_(std::move(name)) {}
  UniqueFd socket_;
  std::string name_;
};

struct NodeExchangeOptions {
  std::vector<int> ranks;  ///< Of the candidate group, ascending, mine among them.
  int rank = 0;
  std::string leader_name;                     ///< Abstract name at which ranks.front() listens.
  const AbstractListener* listener = nullptr;  ///< The leader's own; null on the others.
  std::size_t memory_bytes = 0;
  std::size_t arena_bytes = 0;  ///< Address space of each local rank; equal on all.
  JobKey key;
  Deadline deadline = kForever;
};

/// Makes a NodeGroup of processes on one machine: the lowest rank creates the shared segment,
/// collects the bell and the pidfd of every other, and passes all descriptors to all. Peers must
/// run under this user and prove the job key; others are refused and the exchange goes on.
/// A group of one needs no socket.
Result<NodeGroup> exchange_node(const NodeExchangeOptions& options);

/// Equal on two processes that could share memory: machine, network name space, user.
std::string machine_key();

}  // namespace hvd
