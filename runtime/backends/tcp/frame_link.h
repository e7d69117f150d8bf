// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "base/result.h"
#include "transport/link.h"

namespace hvd {

/// What stands in front of every payload between nodes. Both ends compute which frames must come,
/// so every field is checked. In the byte order of the hosts, which the magic number shows.
struct FrameHeader {
  enum Kind : std::uint32_t {
    kPartial = 1,  ///< Partial results of a piece, or of the receiver's slice of it.
    kResult = 2,   ///< The sender's slice of the result.
    kBytes = 3,    ///< A piece of a broadcast or allgather.
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
  /// stays in the socket, which holds the sender back); a Status when no such frame is due.
  virtual Result<std::optional<std::byte*>> place(int node, const FrameHeader& header) = 0;
  /// The whole payload is in its place.
  virtual void arrived(int node, const FrameHeader& header) = 0;
};

/// Frames over one Link: a queue of borrowed payloads outwards, payloads straight to their place
/// inwards. Engine thread only.
class FrameLink {
 public:
  FrameLink(Link& link, int node) : link_(link), node_(node) {}

  /// Queues a frame. `payload` is borrowed until `*unsent`, raised by one here, is lowered again.
  void queue(const FrameHeader& header, std::span<const std::byte> payload, std::size_t* unsent);
  /// Sends what the kernel takes; true when it took anything.
  Result<bool> send();
  /// Receives at most one frame's worth; true when anything came.
  Result<bool> receive(FrameSink& sink);
  /// Drops what is borrowed: the queue, and the place of a payload under way.
  void forget();

 private:
  struct Outgoing {
    FrameHeader header;
    std::span<const std::byte> payload;
    std::size_t* unsent;
  };
  Status unexpected(const FrameHeader& header, const Status& reason) const;

  Link& link_;
  int node_;
  std::deque<Outgoing> queue_;
  std::size_t sent_ = 0;  // of the first frame, header included
  std::array<std::byte, sizeof(FrameHeader)> header_bytes_{};
  std::size_t header_received_ = 0;
  FrameHeader header_;
  std::byte* place_ = nullptr;
  bool placed_ = false;
  std::size_t received_ = 0;  // of the payload
};

}  // namespace hvd
