// SPDX-License-Identifier: Apache-2.0
#include "backends/tcp/frame_link.h"

#include <algorithm>

#include "base/copy_bytes.h"

namespace hvd {

void FrameLink::queue(const FrameHeader& header, std::span<const std::byte> payload,
                      std::size_t* unsent) {
  queue_.push_back({header, payload, unsent});
  queue_.back().header.bytes = payload.size();
  queued_bytes_ += sizeof(FrameHeader) + payload.size();
  ++*unsent;
}

Result<bool> FrameLink::send() {
  bool moved = false;
  while (!queue_.empty()) {
    std::array<iovec, 2 * kFramesPerSend> parts{};
    std::size_t used = 0;
    std::size_t wanted = 0;
    std::size_t skip = sent_;
    const auto add = [&](std::byte* data, std::size_t bytes) {
      const std::size_t skipped = std::min(skip, bytes);
      skip -= skipped;
      if (skipped == bytes) return;
      parts[used++] = {data + skipped, bytes - skipped};
      wanted += bytes - skipped;
    };
    const std::size_t frames = std::min(queue_.size(), kFramesPerSend);
    for (std::size_t i = 0; i < frames; ++i) {
      Outgoing& frame = queue_[i];
      add(reinterpret_cast<std::byte*>(&frame.header), sizeof(FrameHeader));
      add(const_cast<std::byte*>(frame.payload.data()), frame.payload.size());
    }
    HVD_TRY_ASSIGN(const std::size_t n, link_.send_some(std::span<const iovec>(parts).first(used)));
    if (n == 0) return moved;
    moved = true;
    take_sent(n);
    if (n < wanted) return true;  // the kernel has no room for more
  }
  return moved;
}

void FrameLink::take_sent(std::size_t bytes) {
  queued_bytes_ -= bytes;
  sent_ += bytes;
  while (!queue_.empty()) {
    const Outgoing& first = queue_.front();
    const std::size_t whole = sizeof(FrameHeader) + first.payload.size();
    if (sent_ < whole) return;
    sent_ -= whole;
    --*first.unsent;
    queue_.pop_front();
  }
}

Status FrameLink::unexpected(const FrameHeader& header, const Status& reason) const {
  return error(Code::kInternal,
               "unexpected frame from rank {} on {} (kind {}, transfer {}, round {}, {} bytes): {}",
               link_.peer_rank(), link_.peer_host(), header.kind, header.transfer, header.round,
               header.bytes, reason.message());
}

std::size_t FrameLink::take_staged(std::byte* destination, std::size_t bytes) {
  const std::size_t n = std::min(bytes, staged());
  if (n > 0) copy_bytes(destination, staged_.get() + staged_begin_, n);
  staged_begin_ += n;
  if (staged_begin_ == staged_end_) staged_begin_ = staged_end_ = 0;
  return n;
}

Result<std::size_t> FrameLink::fill() {
  std::array<iovec, 2> parts{};
  std::size_t used = 0;
  const std::size_t missing = placed_ ? header_.bytes - received_ : 0;
  if (missing > 0) parts[used++] = {place_ + received_, missing};
  parts[used++] = {staged_.get() + staged_end_, kStagedBytes - staged_end_};
  HVD_TRY_ASSIGN(const std::size_t n,
                 link_.receive_parts(std::span<const iovec>(parts).first(used)));
  const std::size_t direct = std::min(n, missing);
  received_ += direct;
  staged_end_ += n - direct;
  return n;
}

Result<bool> FrameLink::place_payload(FrameSink& sink) {
  if (header_.magic != FrameHeader::kMagic) {
    return unexpected(header_, error(Code::kInternal, "wrong magic number {:#x}", header_.magic));
  }
  auto place = sink.place(node_, header_);
  if (!place.is_ok()) return unexpected(header_, place.status());
  if (!place.value().has_value()) return false;
  place_ = *place.value();
  placed_ = true;
  received_ = take_staged(place_, header_.bytes);
  return true;
}

Result<bool> FrameLink::receive(FrameSink& sink) {
  bool moved = false;
  if (!has_header_) {
    if (staged() < sizeof(FrameHeader)) {
      std::memmove(staged_.get(), staged_.get() + staged_begin_, staged());
      staged_end_ -= staged_begin_;
      staged_begin_ = 0;
      HVD_TRY_ASSIGN(const std::size_t n, fill());
      if (staged() < sizeof(FrameHeader)) return n > 0;
    }
    take_staged(reinterpret_cast<std::byte*>(&header_), sizeof(FrameHeader));
    has_header_ = moved = true;
  }
  if (!placed_) {
    HVD_TRY_ASSIGN(const bool placed, place_payload(sink));
    if (!placed) return moved;
  }
  while (received_ < header_.bytes) {
    const std::size_t missing = header_.bytes - received_;
    HVD_TRY_ASSIGN(const std::size_t n, fill());
    moved = moved || n > 0;
    if (n < missing) return moved;
  }
  placed_ = has_header_ = false;
  sink.arrived(node_, header_);
  return true;
}

void FrameLink::forget() {
  queue_.clear();
  queued_bytes_ = 0;
  placed_ = false;
  place_ = nullptr;
}

}  // namespace hvd
