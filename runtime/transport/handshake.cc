// SPDX-License-Identifier: Apache-2.0
#include "transport/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>

#include "transport/socket_io.h"

namespace hvd {
namespace {

constexpr std::string_view kMagic = "hvdwire1";
constexpr std::size_t kHelloBytes = kMagic.size() + sizeof(Nonce);
constexpr std::size_t kChallengeBytes = kHelloBytes + sizeof(Mac);

/// A fresh socket buffer holds these few bytes; if it does not, the peer is not worth waiting for.
Status send_now(int fd, const Bytes& message) {
  const auto sent = ::send(fd, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(message.size())) return Status::ok();
  return error(Code::kPeerLost, "handshake: cannot send: {}",
               sent < 0 ? std::generic_category().message(errno) : "the socket is full");
}

template <std::size_t N>
void copy_out(const Bytes& from, std::size_t offset, std::array<std::byte, N>& to) {
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(offset), N, to.begin());
}

}  // namespace

Handshake::Handshake(Side side, const JobKey& key)
    : key_(key),
      step_(side == Side::kClient ? Step::kSendHello : Step::kAwaitHello),
      mine_(random_nonce()) {}

short Handshake::wanted_events() const { return step_ == Step::kSendHello ? POLLOUT : POLLIN; }

Result<bool> Handshake::advance(int fd) {
  switch (step_) {
    case Step::kSendHello:
      return send_hello(fd);
    case Step::kAwaitHello:
      return answer_hello(fd);
    case Step::kAwaitChallenge:
      return answer_challenge(fd);
    case Step::kAwaitProof:
      return check_proof(fd);
    case Step::kDone:
      return true;
  }
  return error(Code::kInternal, "handshake: impossible step");
}

Result<bool> Handshake::receive(int fd, std::size_t size) {
  const std::size_t old_size = received_.size();
  received_.resize(size);
  const auto got = ::recv(fd, received_.data() + old_size, size - old_size, MSG_DONTWAIT);
  const int cause = errno;
  received_.resize(old_size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got == 0 && step_ == Step::kAwaitHello && received_.empty()) {
    // A candidate address that lost the race: no stranger, nothing to report.
    return error(Code::kAborted, "handshake: the peer left without a word");
  }
  if (got == 0) return error(Code::kPeerLost, "handshake: the peer closed the connection");
  if (got < 0 && cause != EAGAIN && cause != EWOULDBLOCK && cause != EINTR) {
    return error(Code::kPeerLost, "handshake: {}", std::generic_category().message(cause));
  }
  const std::size_t compared = std::min(received_.size(), kMagic.size());
  if (step_ != Step::kAwaitProof && std::memcmp(received_.data(), kMagic.data(), compared) != 0) {
    return error(Code::kInvalidArgument, "handshake: the peer does not speak hvd's protocol");
  }
  return received_.size() == size;
}

Result<bool> Handshake::send_hello(int fd) {
  ByteWriter hello;
  hello.put_raw(std::as_bytes(std::span(kMagic)));
  hello.put_raw(mine_);
  HVD_TRY(send_now(fd, hello.bytes()));
  step_ = Step::kAwaitChallenge;
  return false;
}

Result<bool> Handshake::answer_hello(int fd) {
  HVD_TRY_ASSIGN(const bool whole, receive(fd, kHelloBytes));
  if (!whole) return false;
  copy_out(received_, kMagic.size(), theirs_);
  received_.clear();
  ByteWriter challenge;
  challenge.put_raw(std::as_bytes(std::span(kMagic)));
  challenge.put_raw(mine_);
  challenge.put_raw(key_.authenticate("server", theirs_, mine_));
  HVD_TRY(send_now(fd, challenge.bytes()));
  step_ = Step::kAwaitProof;
  return false;
}

Result<bool> Handshake::answer_challenge(int fd) {
  HVD_TRY_ASSIGN(const bool whole, receive(fd, kChallengeBytes));
  if (!whole) return false;
  copy_out(received_, kMagic.size(), theirs_);
  Mac proof;
  copy_out(received_, kHelloBytes, proof);
  if (!equal_macs(proof, key_.authenticate("server", mine_, theirs_))) {
    return error(Code::kMismatch, "handshake: the server holds another job's key");
  }
  ByteWriter answer;
  answer.put_raw(key_.authenticate("client", mine_, theirs_));
  HVD_TRY(send_now(fd, answer.bytes()));
  step_ = Step::kDone;
  return true;
}

Result<bool> Handshake::check_proof(int fd) {
  HVD_TRY_ASSIGN(const bool whole, receive(fd, sizeof(Mac)));
  if (!whole) return false;
  Mac proof;
  copy_out(received_, 0, proof);
  if (!equal_macs(proof, key_.authenticate("client", theirs_, mine_))) {
    return error(Code::kMismatch, "handshake: the client holds another job's key");
  }
  step_ = Step::kDone;
  return true;
}

Status shake_hands(int fd, Handshake::Side side, const JobKey& key, Deadline deadline) {
  Handshake handshake(side, key);
  for (;;) {
    HVD_TRY_ASSIGN(const bool done, handshake.advance(fd));
    if (done) return Status::ok();
    HVD_TRY_ASSIGN(const bool ready, wait_ready(fd, handshake.wanted_events(), deadline));
    if (!ready) return error(Code::kTimeout, "handshake: the peer is silent");
  }
}

}  // namespace hvd
