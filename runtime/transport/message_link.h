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
/// The queue is bounded: where kMaxUnsentBytes wait already, a further message is an error.
/// One thread at a time.
class MessageLink {
 public:
  static constexpr std::size_t kMaxMessageBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMaxUnsentBytes = std::size_t{64} << 20;

  explicit MessageLink(std::unique_ptr<Link> link);

  /// Queues the message, for a flush(). kPeerLost, with rank, host and size, where the peer has not
  /// read for so long that the queue is full.
  Status queue(Bytes message);
  /// Sends of what is queued what the kernel takes now. Call again when the socket may have become
  /// writable.
  Status flush();
  bool has_unsent() const { return !unsent_.empty(); }
  std::size_t unsent_bytes() const { return unsent_bytes_; }
  /// The next whole message, or nothing yet.
  Result<std::optional<Bytes>> receive();
  /// False where receive() has just given all that had come, so that another look can be spared.
  bool may_have_more() const { return !is_drained_ || received_begin_ < received_.size(); }

  const Link& link() const { return *link_; }
  /// The link without what is queued; this is of no use any more.
  std::unique_ptr<Link> take_link() && { return std::move(link_); }

 private:
  void append(Bytes message);

  std::unique_ptr<Link> link_;
  std::deque<Bytes> unsent_;
  std::size_t unsent_offset_ = 0;  ///< Bytes of the first that are sent.
  std::size_t unsent_bytes_ = 0;
  Bytes received_;
  Bytes arriving_;  ///< Where recv() puts bytes; kept, since most looks find nothing.
  std::size_t received_begin_ = 0;
  bool is_drained_ = false;  ///< The last look at the socket took all.
};

}  // namespace hvd
