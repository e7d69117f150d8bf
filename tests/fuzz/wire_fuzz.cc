// SPDX-License-Identifier: Apache-2.0
// What a stranger may send before and after it is known: greetings, store requests and replies,
// tickets and records, and what leaders tell each other. Any input must end in an error or a value,
// never in a crash.
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "bootstrap/peer_record.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/store_message.h"
#include "engine/protocol/control_message.h"
#include "transport/handshake.h"

namespace {

void greet(std::span<const std::byte> bytes) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return;
  const hvd::UniqueFd ours(ends[0]);
  hvd::UniqueFd theirs(ends[1]);
  [[maybe_unused]] const auto sent =
      ::send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  theirs.reset();
  [[maybe_unused]] const hvd::Status status =
      hvd::shake_hands(ours.get(), hvd::Handshake::Side::kServer, hvd::JobKey(), hvd::kForever);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  greet(bytes);
  [[maybe_unused]] const auto request = hvd::store_message::decode_request(bytes);
  [[maybe_unused]] const auto reply = hvd::store_message::decode_reply(bytes);
  [[maybe_unused]] const auto place = hvd::store_message::decode_place(text);
  [[maybe_unused]] const auto ticket = hvd::parse_ticket(text);
  [[maybe_unused]] const auto record = hvd::decode_record(text);
  [[maybe_unused]] const auto control = hvd::decode_control_message(bytes, 70);
  return 0;
}
