// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"

namespace hvd {

/// What stands in front of every payload between nodes. Both ends compute which frames must come,
/// so every field is checked. In the byte order of the hosts, which the magic number shows.
struct FrameHeader {
  enum Kind : std::uint32_t {
    kPartial = 1,   ///< Partial results of a piece, or of the receiver's slice of it.
    kResult = 2,    ///< The sender's slice of the result.
    kBytes = 3,     ///< A piece of a broadcast or allgather.
    kExchange = 4,  ///< What one rank sends to the ranks of a node in one round of an exchange.
  };
  static constexpr std::uint32_t kMagic = 0x68766431;

  std::uint32_t magic = kMagic;
  std::uint32_t kind = 0;
  std::uint64_t transfer = 0;  ///< Counts the transfers of the communicator.
  std::uint64_t round = 0;
  std::uint64_t bytes = 0;  ///< Of the payload.
};

/// Who takes the payloads of arriving frames.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// Where the payload from `node` goes; nothing while there is no room for it yet (the frame
  /// stays on its way, which holds the sender back); a Status when no such frame is due.
  virtual Result<std::optional<std::byte*>> place(int node, const FrameHeader& header) = 0;
  /// The whole payload is in its place.
  virtual void arrived(int node, const FrameHeader& header) = 0;
};

/// What carries frames between my lane and the same lane of the other nodes: the one part in which
/// the planes over several nodes differ. Frames between two nodes may overtake each other, but none
/// waits, in the links, for one that was queued after it.
/// Engine thread only.
class LaneLinks {
 public:
  virtual ~LaneLinks() = default;
  /// Queues a frame. `payload` is borrowed until `*unsent`, raised by one here, is lowered again,
  /// and may be for ever where that never comes: it lies in memory of the backend, as places do
  /// (slots, buffers of rounds), never in a task's, and in a tensor only where takes_tensors().
  /// `unsent`, which may, is touched by pump() alone.
  virtual void queue(int node, const FrameHeader& header, std::span<const std::byte> payload,
                     std::size_t* unsent) = 0;
  /// Sends and receives what is possible now; true when anything moved.
  virtual Result<bool> pump(FrameSink& sink) = 0;
  /// A transfer ended early: drops everything that it lent. No pump() follows.
  virtual void forget() = 0;
  /// True when payloads and places may lie in tensors: nothing touches them after forget().
  virtual bool takes_tensors() const { return false; }
  /// As Backend::needs_polling.
  virtual bool needs_polling() const { return false; }
  /// True when payloads and places that it was lent must never be freed: after forget(), something
  /// that cannot be stopped may still use them.
  virtual bool keeps_memory() const { return false; }
};

}  // namespace hvd
