// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "backends/lanes/lane_links.h"
#include "base/result.h"
#include "transport/link.h"

namespace hvd {

/// Frames over one Link: a queue of borrowed payloads outwards, several to a system call; inwards
/// long payloads go straight to their place, and what is short comes with its header.
/// Engine thread only.
class FrameLink {
 public:
  FrameLink(Link& link, int node)
      : link_(link), node_(node), staged_(std::make_unique<std::byte[]>(kStagedBytes)) {}

  /// Queues a frame. `payload` is borrowed until `*unsent`, raised by one here, is lowered again.
  void queue(const FrameHeader& header, std::span<const std::byte> payload, std::size_t* unsent);
  /// Bytes that the kernel has not taken yet.
  std::size_t queued_bytes() const { return queued_bytes_; }
  /// Sends what the kernel takes; true when it took anything.
  Result<bool> send();
  /// Receives at most one frame's worth; true when anything came.
  Result<bool> receive(FrameSink& sink);
  /// Drops what is borrowed: the queue, and the place of a payload under way.
  void forget();

  const Link& link() const { return link_; }

 private:
  static constexpr std::size_t kStagedBytes = 4096;
  static constexpr std::size_t kFramesPerSend = 8;

  struct Outgoing {
    FrameHeader header;
    std::span<const std::byte> payload;
    std::size_t* unsent;
  };
  Status unexpected(const FrameHeader& header, const Status& reason) const;
  void take_sent(std::size_t bytes);
  std::size_t staged() const { return staged_end_ - staged_begin_; }
  /// Copies from what is staged; the bytes that were there.
  std::size_t take_staged(std::byte* destination, std::size_t bytes);
  /// One system call: the rest of a payload that has its place, then the staging area. The bytes
  /// that came.
  Result<std::size_t> fill();
  Result<bool> place_payload(FrameSink& sink);

  Link& link_;
  int node_;
  std::deque<Outgoing> queue_;
  std::size_t sent_ = 0;  // of the first frame, header included
  std::size_t queued_bytes_ = 0;
  std::unique_ptr<std::byte[]> staged_;
  std::size_t staged_begin_ = 0;
  std::size_t staged_end_ = 0;
  FrameHeader header_;
  bool has_header_ = false;
  std::byte* place_ = nullptr;
  bool placed_ = false;
  std::size_t received_ = 0;  // of the payload
};

}  // namespace hvd
