// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "transport/job_key.h"
#include "transport/socket_address.h"

namespace hvd {

/// A TCP port that listens on all interfaces, IPv6 and IPv4. One thread at a time.
class Listener {
 public:
  /// Port 0: one that is free. A port in use is an error that names it.
  static Result<Listener> open(std::uint16_t port = 0);

  std::uint16_t port() const { return port_; }
  int fd() const { return socket_.get(); }
  /// Nobody gets in any more, and whoever waits for a connection gets an error. From any thread.
  void interrupt() const;
  /// The next connection, tuned and non-blocking; not open when there is none now.
  Result<UniqueFd> accept() const;

 private:
  Listener(UniqueFd socket, std::uint16_t port) : socket_(std::move(socket)), port_(port) {}
  UniqueFd socket_;
  std::uint16_t port_;
};

/// Connects to the first of `candidates` that answers and proves the job key. All are tried at
/// once; the first in the list wins unless it is later than another by more than 30 ms, or silent
/// for half a second. The error lists what became of each, with the interface and address here;
/// kMismatch: one holds another job's key; kSystem: this process gets no sockets; kAborted: `own`,
/// where given, was interrupted meanwhile.
Result<UniqueFd> connect_authenticated(std::span<const SocketAddress> candidates, const JobKey& key,
                                       Deadline deadline, const Listener* own = nullptr);

}  // namespace hvd
