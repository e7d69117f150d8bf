// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/result.h"
#include "transport/job_key.h"

namespace hvd {

/// Proves to both ends of a fresh connection that the other holds the job key, which never
/// travels itself.
///
///     client -> server   "hvdwire1", client nonce                                    40 bytes
///     server -> client   "hvdwire1", server nonce, MAC("server", both nonces)        72 bytes
///     client -> server   MAC("client", both nonces)                                  32 bytes
///
/// Messages have a fixed size and the first eight bytes are compared before anything else, so
/// that garbage, port scanners and other protocols cost nothing. One thread at a time.
class Handshake {
 public:
  enum class Side { kClient, kServer };
  Handshake(Side side, const JobKey& key);

  /// Takes one step without blocking: true when the peer is proven. An error refuses the peer;
  /// kAborted: it left before it said anything.
  Result<bool> advance(int fd);
  /// poll(2) events to wait for before the next step.
  short wanted_events() const;

 private:
  Result<bool> send_hello(int fd);
  Result<bool> answer_hello(int fd);
  Result<bool> answer_challenge(int fd);
  Result<bool> check_proof(int fd);
  /// True when `size` bytes are in received_.
  Result<bool> receive(int fd, std::size_t size);

  enum class Step { kSendHello, kAwaitHello, kAwaitChallenge, kAwaitProof, kDone };
  JobKey key_;
  Step step_;
  Nonce mine_;
  Nonce theirs_{};
  Bytes received_;
};

/// Runs the whole exchange. kTimeout, kPeerLost, or kInvalidArgument for a wrong key or a stranger.
Status shake_hands(int fd, Handshake::Side side, const JobKey& key, Deadline deadline);

}  // namespace hvd
