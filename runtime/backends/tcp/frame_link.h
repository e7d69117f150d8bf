// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "backends/lanes/lane_links.h"
#include "base/result.h"
#include "transport/link.h"

namespace hvd {

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
