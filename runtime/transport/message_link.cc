// SPDX-License-Identifier: Apache-2.0
#include "transport/message_link.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

namespace hvd {
namespace {

constexpr std::size_t kPrefixBytes = sizeof(std::uint32_t);
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kPartsPerSend = 16;
constexpr std::size_t kSharedBytes = std::size_t{16} << 10;

}  // namespace

MessageLink::MessageLink(std::unique_ptr<Link> link) : link_(std::move(link)) {}

Status MessageLink::queue(Bytes message) {
  if (message.size() > kMaxMessageBytes) {
    return error(Code::kInternal, "a message of {} bytes to rank {} exceeds the limit of {}",
                 message.size(), link_->peer_rank(), kMaxMessageBytes);
  }
  if (unsent_bytes_ >= kMaxUnsentBytes) {
    return error(
        Code::kPeerLost,
        "rank {} on {} does not read: {} MiB of messages wait for it, and no more are kept; "
        "its process is stopped (a signal, a debugger, a suspended job) or hangs",
        link_->peer_rank(), link_->peer_host(), unsent_bytes_ >> 20);
  }
  append(std::move(message));
  return Status::ok();
}

/// Short messages share a buffer: each of its own would cost many times its bytes.
void MessageLink::append(Bytes message) {
  ByteWriter prefix;
  prefix.put(static_cast<std::uint32_t>(message.size()));
  unsent_bytes_ += kPrefixBytes + message.size();
  const bool has_room = !unsent_.empty() && unsent_.back().size() < kSharedBytes;
  if (!has_room) {
    unsent_.push_back(prefix.take());
  } else {
    unsent_.back().insert(unsent_.back().end(), prefix.bytes().begin(), prefix.bytes().end());
  }
  if (unsent_.back().size() + message.size() <= kSharedBytes) {
    unsent_.back().insert(unsent_.back().end(), message.begin(), message.end());
  } else {
    unsent_.push_back(std::move(message));
  }
}

Status MessageLink::flush() {
  while (!unsent_.empty()) {
    std::array<iovec, kPartsPerSend> parts;
    const std::size_t count = std::min(unsent_.size(), parts.size());
    std::size_t offset = unsent_offset_;
    for (std::size_t i = 0; i < count; ++i) {
      parts[i] = {unsent_[i].data() + offset, unsent_[i].size() - offset};
      offset = 0;
    }
    HVD_TRY_ASSIGN(std::size_t sent, link_->send_some(std::span<const iovec>(parts.data(), count)));
    if (sent == 0) return Status::ok();
    unsent_bytes_ -= sent;
    while (sent > 0) {
      const std::size_t left = unsent_.front().size() - unsent_offset_;
      if (sent < left) {
        unsent_offset_ += sent;
        break;
      }
      sent -= left;
      unsent_offset_ = 0;
      unsent_.pop_front();
    }
  }
  return Status::ok();
}

Result<std::optional<Bytes>> MessageLink::receive() {
  for (;;) {
    const std::size_t available = received_.size() - received_begin_;
    if (available >= kPrefixBytes) {
      std::uint32_t length = 0;
      std::memcpy(&length, received_.data() + received_begin_, kPrefixBytes);
      if (length > kMaxMessageBytes) {
        return error(Code::kInternal,
                     "rank {} on {} announced a message of {} bytes; the limit is {}",
                     link_->peer_rank(), link_->peer_host(), length, kMaxMessageBytes);
      }
      if (available - kPrefixBytes >= length) {
        const auto* begin = received_.data() + received_begin_ + kPrefixBytes;
        received_begin_ += kPrefixBytes + length;
        return std::optional<Bytes>(Bytes(begin, begin + length));
      }
    }
    received_.erase(received_.begin(),
                    received_.begin() + static_cast<std::ptrdiff_t>(received_begin_));
    received_begin_ = 0;
    if (arriving_.empty()) arriving_.resize(kReadBytes);
    HVD_TRY_ASSIGN(const std::size_t got, link_->receive_some(arriving_));
    if (got == 0) return std::optional<Bytes>();
    is_drained_ = got < arriving_.size();
    received_.insert(received_.end(), arriving_.begin(),
                     arriving_.begin() + static_cast<std::ptrdiff_t>(got));
  }
}

}  // namespace hvd
