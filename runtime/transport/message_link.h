// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/link.h"

namespace hvd {

/// Whole messages over a Link, without blocking: a queue outwards, reassembly inwards.
/// A message is at most kMaxMessageBytes; a longer length prefix from the peer is an error.
/// One thread at a time.
class MessageLink {
 public:
  static constexpr std::size_t kMaxMessageBytes = std::size_t{64} << 20;

  explicit MessageLink(std::unique_ptr<Link> link);

  /// Queues the message and sends what the kernel takes now.
  Status send(Bytes message);
  /// Sends more of what is queued. Call when the socket may have become writable.
  Status flush();
  bool has_unsent() const { return !unsent_.empty(); }
  /// The next whole message, or nothing yet.
  Result<std::optional<Bytes>> receive();

  const Link& link() const { return *link_; }

 private:
  std::unique_ptr<Link> link_;
  std::deque<Bytes> unsent_;
  std::size_t unsent_offset_ = 0;
  Bytes received_;
  Bytes arriving_;  ///< Where recv() puts bytes; kept, since most looks find nothing.
  std::size_t received_begin_ = 0;
};

}  // namespace hvd
