// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

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
