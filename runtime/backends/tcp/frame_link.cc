// SPDX-License-Identifier: Apache-2.0
#include "backends/tcp/frame_link.h"

#include <cstring>

namespace hvd {

void FrameLink::queue(const FrameHeader& header, std::span<const std::byte> payload,
                      std::size_t* unsent) {
  queue_.push_back({header, payload, unsent});
  queue_.back().header.bytes = payload.size();
  ++*unsent;
}

Result<bool> FrameLink::send() {
  bool moved = false;
  while (!queue_.empty()) {
    Outgoing& first = queue_.front();
    std::array<iovec, 2> parts{};
    std::size_t used = 0;
    if (sent_ < sizeof(FrameHeader)) {
      auto* bytes = reinterpret_cast<std::byte*>(&first.header);
      parts[used++] = {bytes + sent_, sizeof(FrameHeader) - sent_};
    }
    const std::size_t payload_sent = sent_ < sizeof(FrameHeader) ? 0 : sent_ - sizeof(FrameHeader);
    const auto rest = first.payload.subspan(payload_sent);
    if (!rest.empty()) {
      parts[used++] = {const_cast<std::byte*>(rest.data()), rest.size()};
    }
    HVD_TRY_ASSIGN(const std::size_t n, link_.send_some(std::span<const iovec>(parts).first(used)));
    if (n == 0) return moved;
    moved = true;
    sent_ += n;
    if (sent_ < sizeof(FrameHeader) + first.payload.size()) continue;
    --*first.unsent;
    queue_.pop_front();
    sent_ = 0;
  }
  return moved;
}

Status FrameLink::unexpected(const FrameHeader& header, const Status& reason) const {
  return error(Code::kInternal,
               "unexpected frame from rank {} on {} (kind {}, transfer {}, round {}, {} bytes): {}",
               link_.peer_rank(), link_.peer_host(), header.kind, header.transfer, header.round,
               header.bytes, reason.message());
}

Result<bool> FrameLink::receive(FrameSink& sink) {
  bool moved = false;
  if (header_received_ < sizeof(FrameHeader)) {
    HVD_TRY_ASSIGN(const std::size_t n,
                   link_.receive_some(std::span(header_bytes_).subspan(header_received_)));
    header_received_ += n;
    if (header_received_ < sizeof(FrameHeader)) return n > 0;
    std::memcpy(&header_, header_bytes_.data(), sizeof(FrameHeader));
    moved = true;
  }
  if (!placed_) {
    if (header_.magic != FrameHeader::kMagic) {
      return unexpected(header_, error(Code::kInternal, "wrong magic number {:#x}", header_.magic));
    }
    auto place = sink.place(node_, header_);
    if (!place.is_ok()) return unexpected(header_, place.status());
    if (!place.value().has_value()) return moved;
    place_ = *place.value();
    placed_ = true;
    received_ = 0;
  }
  while (received_ < header_.bytes) {
    HVD_TRY_ASSIGN(const std::size_t n,
                   link_.receive_some(std::span(place_ + received_, header_.bytes - received_)));
    if (n == 0) return moved;
    moved = true;
    received_ += n;
  }
  placed_ = false;
  header_received_ = 0;
  sink.arrived(node_, header_);
  return true;
}

void FrameLink::forget() {
  queue_.clear();
  placed_ = false;
  place_ = nullptr;
}

}  // namespace hvd
