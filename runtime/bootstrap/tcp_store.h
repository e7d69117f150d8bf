// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "bootstrap/store.h"
#include "bootstrap/store_message.h"
#include "transport/job_key.h"
#include "transport/socket_address.h"

namespace hvd {

/// A client of a TcpStoreServer. Thread-safe; one request at a time.
class TcpStore : public Store {
 public:
  /// Connects and proves the key; tries again until the deadline where nobody listens yet.
  static Result<std::unique_ptr<TcpStore>> connect(std::span<const SocketAddress> addresses,
                                                   const JobKey& key, Deadline deadline);
  /// One attempt, for a server that must be there already.
  static Result<std::unique_ptr<TcpStore>> connect_once(std::span<const SocketAddress> addresses,
                                                        const JobKey& key, Deadline deadline);
  explicit TcpStore(UniqueFd socket) : socket_(std::move(socket)) {}

  std::string_view name() const override { return "tcp"; }
  Status set(std::string_view key, std::string_view value, Deadline deadline) override;
  Result<std::string> wait(std::string_view key, Deadline deadline) override;
  Result<std::vector<std::string>> allgather(std::string_view round, int rank, int size,
                                             std::string_view value, Deadline deadline) override;

 private:
  Result<store_message::Reply> ask(store_message::Request request, Deadline deadline);
  Mutex mutex_;
  UniqueFd socket_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
