// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/spoke.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "doubles/nccl/controls.h"
#include "doubles/nccl/star.h"

namespace double_nccl {

Spoke::~Spoke() { stop(); }

void Spoke::stop() {
  abort();
  if (reader_.joinable()) reader_.join();
}

bool Spoke::connect_to(const ncclUniqueId& id) {
  const std::string name = socket_of(id);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(),
              std::min(name.size(), sizeof(address.sun_path) - 1));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  hvd::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open() ||
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return false;
  }
  const hvd::Lock lock(mutex_);
  if (is_aborted_) return false;
  socket_ = std::move(socket);
  is_open_ = true;
  return true;
}

ncclResult_t Spoke::join(const ncclUniqueId& id, const Hello& hello) {
  if (!connect_to(id)) {
    fail(ncclSystemError, "cannot connect to " + socket_of(id) + ": " + std::strerror(errno));
    return ncclSystemError;
  }
  reader_ = std::thread([this] { read_frames(); });
  Frame frame;
  frame.kind = FrameKind::kHello;
  frame.bytes = sizeof(hello);
  write(frame, &hello);
  const hvd::Lock lock(mutex_);
  while (!is_ready_ && !is_aborted_ && error_ == ncclSuccess) {
    changed_.wait_until(mutex_, hvd::kForever);
  }
  return is_ready_ ? ncclSuccess : (error_ == ncclSuccess ? ncclInternalError : error_);
}

std::uint64_t Spoke::send(const Operation& operation, const void* payload, std::size_t bytes) {
  Frame frame;
  frame.kind = FrameKind::kOperation;
  frame.operation = operation;
  frame.bytes = bytes;
  {
    const hvd::Lock lock(mutex_);
    frame.ticket = next_ticket_++;
  }
  write(frame, payload);
  return frame.ticket;
}

void Spoke::write(const Frame& frame, const void* payload) {
  {
    const hvd::Lock lock(mutex_);
    if (!is_open_) return;
  }
  const hvd::Lock lock(writing_);
  std::size_t at = 0;
  while (at < sizeof(frame) + frame.bytes) {
    iovec parts[2] = {{}, {}};
    const std::size_t in_payload = at < sizeof(frame) ? 0 : at - sizeof(frame);
    if (at < sizeof(frame)) {
      parts[0].iov_base = reinterpret_cast<char*>(const_cast<Frame*>(&frame)) + at;
      parts[0].iov_len = sizeof(frame) - at;
    }
    parts[1].iov_base = static_cast<char*>(const_cast<void*>(payload)) + in_payload;
    parts[1].iov_len = frame.bytes - in_payload;
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = frame.bytes == 0 ? 1 : 2;
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;  // the reader sees the end
    at += static_cast<std::size_t>(sent);
  }
}

bool Spoke::wait_until(std::uint64_t ticket, Bytes& answer, bool error_ends) {
  const hvd::Lock lock(mutex_);
  for (;;) {
    if (is_aborted_) return false;
    if (const auto found = answers_.find(ticket); found != answers_.end()) {
      answer = std::move(found->second);
      answers_.erase(found);
      return true;
    }
    if (error_ends && error_ != ncclSuccess) return false;
    changed_.wait_until(mutex_, hvd::kForever);
  }
}

bool Spoke::wait(std::uint64_t ticket, Bytes& answer) { return wait_until(ticket, answer, false); }

bool Spoke::wait_or_fail(std::uint64_t ticket, Bytes& answer) {
  return wait_until(ticket, answer, true);
}

void Spoke::wait_for_abort() {
  const hvd::Lock lock(mutex_);
  while (!is_aborted_) changed_.wait_until(mutex_, hvd::kForever);
}

void Spoke::fail(ncclResult_t code, const std::string& text) {
  {
    const hvd::Lock lock(mutex_);
    if (error_ != ncclSuccess || is_aborted_) return;
    set_last_error(text);  // before anybody can see that there is an error
    error_ = code;
  }
  changed_.notify_all();
}

void Spoke::abort() {
  {
    const hvd::Lock lock(mutex_);
    is_aborted_ = true;
    if (is_open_) shutdown(socket_.get(), SHUT_RDWR);
  }
  changed_.notify_all();
}

bool Spoke::is_aborted() const {
  const hvd::Lock lock(mutex_);
  return is_aborted_;
}

void Spoke::leave() {
  Frame frame;
  frame.kind = FrameKind::kBye;
  {
    const hvd::Lock lock(mutex_);
    frame.ticket = next_ticket_++;
  }
  write(frame, nullptr);
  const hvd::Lock lock(mutex_);
  while (answers_.erase(frame.ticket) == 0 && !is_over_ && !is_aborted_ && error_ == ncclSuccess) {
    changed_.wait_until(mutex_, hvd::kForever);
  }
}

ncclResult_t Spoke::error() const {
  const hvd::Lock lock(mutex_);
  return error_;
}

bool Spoke::read_bytes(void* to, std::size_t bytes) {
  std::size_t at = 0;
  while (at < bytes) {
    const ssize_t got = recv(socket_.get(), static_cast<char*>(to) + at, bytes - at, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += static_cast<std::size_t>(got);
  }
  return true;
}

void Spoke::read_frames() {
  Frame frame;
  while (read_bytes(&frame, sizeof(frame))) {
    Bytes payload(frame.bytes);
    if (!read_bytes(payload.data(), payload.size())) break;
    take(frame, std::move(payload));
  }
  bool in_order = false;
  {
    const hvd::Lock lock(mutex_);
    in_order = is_aborted_ || somebody_left_;
    is_over_ = true;
  }
  changed_.notify_all();
  // The process of the star ends in order only after its own rank has left.
  if (!in_order) fail(ncclRemoteError, "the process of rank 0 has gone");
}

void Spoke::take(const Frame& frame, Bytes payload) {
  if (frame.kind == FrameKind::kFailed) {
    const std::string text(reinterpret_cast<const char*>(payload.data()), payload.size());
    return fail(static_cast<ncclResult_t>(frame.code), text);
  }
  {
    const hvd::Lock lock(mutex_);
    if (frame.kind == FrameKind::kReady) is_ready_ = true;
    if (frame.kind == FrameKind::kBye) somebody_left_ = true;
    if (frame.kind == FrameKind::kResult) answers_[frame.ticket] = std::move(payload);
  }
  changed_.notify_all();
}

}  // namespace double_nccl
