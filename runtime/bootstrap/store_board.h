// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "bootstrap/store_message.h"

namespace hvd {

/// What a store server knows: the values, and who waits for what. No sockets: decisions only.
/// One thread at a time.
class StoreBoard {
 public:
  using Client = std::uint64_t;
  struct Answer {
    Client client = 0;
    store_message::Reply reply;
  };

  /// Answers that the request makes due, its own among them unless it is parked.
  std::vector<Answer> handle(Client client, store_message::Request request);
  /// Answers to the parked requests whose deadline has passed.
  std::vector<Answer> expire();
  /// The next moment at which expire() has something to do.
  Deadline next_deadline() const;
  /// Forgets the parked requests of a client that is gone.
  void forget(Client client);

 private:
  struct Parked {
    Client client = 0;
    bool gathers = false;
    std::string key;
    Deadline deadline = kForever;
  };
  struct Round {
    int size = 0;
    std::map<int, std::string> values;
  };
  std::optional<store_message::Reply> reply_to(const Parked& parked) const;
  store_message::Reply timeout_of(const Parked& parked) const;
  std::vector<Answer> settle(const std::string& key);
  std::optional<store_message::Reply> enter(const store_message::Request& request);

  std::map<std::string, std::string> values_;
  std::map<std::string, Round> rounds_;
  std::vector<Parked> parked_;
};

}  // namespace hvd
