// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace hvd {

/// An authenticated, connected, non-blocking TCP socket to one peer rank.
/// One thread at a time.
class Link {
 public:
  Link(UniqueFd socket, int peer_rank, std::string peer_host);

  /// Bytes taken by the kernel; 0 when it would block. kPeerLost names the peer rank and host.
  Result<std::size_t> send_some(std::span<const std::byte> bytes);
  Result<std::size_t> send_some(std::span<const iovec> parts);
  /// Bytes received; 0 when it would block. kPeerLost at end of file or reset.
  Result<std::size_t> receive_some(std::span<std::byte> bytes);
  Result<std::size_t> receive_parts(std::span<const iovec> parts);

  /// How long the peer's host has answered nothing although it was asked at least twice: with data
  /// that it did not acknowledge, or with the kernel's probes of a quiet connection, one a second.
  /// 0: it answers. Says nothing about the peer's process: the kernel of one that is stopped, or
  /// busy, still answers, and that of this one asks while this one is stopped.
  std::chrono::milliseconds unanswered() const;
  /// "no answer for 3.1 s on the connection from 10.0.0.1:4000 (eth0) to 10.0.0.2:5000: ..."
  std::string describe_silence(std::chrono::milliseconds silence) const;

  /// Ends the connection for both ends. The number of its descriptor stays taken while this lives.
  void shut_down() const;

  int fd() const { return socket_.get(); }
  int peer_rank() const { return peer_rank_; }
  const std::string& peer_host() const { return peer_host_; }

 private:
  Status lost(int error_number) const;
  UniqueFd socket_;
  int peer_rank_;
  std::string peer_host_;
};

}  // namespace hvd
