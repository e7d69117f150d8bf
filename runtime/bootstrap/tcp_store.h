// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
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

  /// A rank of the job that starts.
  struct Rank {
    int rank = 0;
    int size = 0;
    std::string who;
    std::uint64_t epoch = 0;  ///< Of its place in an elastic job; 0: the job is not elastic.
  };

  std::string_view name() const override { return "tcp"; }
  Status set(std::string_view key, std::string_view value, Deadline deadline) override;
  Result<std::string> wait(std::string_view key, Deadline deadline) override;
  Result<std::vector<std::string>> allgather(std::string_view round, int rank, int size,
                                             std::string_view value, Deadline deadline) override;

  /// A process of an elastic job.
  struct Process {
    int number = 0;
    std::string who;
    std::string node;                   ///< The same for those that share memory.
    std::uint64_t epoch = 0;            ///< Of its last place; 0: it had none yet.
    int lost = store_message::kNobody;  ///< The rank that it lost there, if it did.
  };
  /// It asks for a place. Waits until the members of the last membership that live have done so;
  /// for the first membership `patience` at most, unless it is no member. kAborted: the job ends.
  Result<store_message::Place> enter(const Process& process, std::chrono::milliseconds patience);

  /// Begins to watch for others that wait for a place in the membership of this rank; ends with the
  /// next request.
  Status await_newcomers(Deadline deadline);
  /// Whether there are any; never waits. Once true the watch has ended.
  Result<bool> has_newcomers();

  /// Attends the process of that number, which runs on this host. The store answers when it is to
  /// be killed: see has_order().
  Status attend(int process, std::string_view host, Deadline deadline);
  /// Readable when the store has an order, or is gone.
  int descriptor();
  /// Reads what came: true for the order to kill the process. kPeerLost: the store is gone.
  Result<bool> has_order();
  /// The process that this client attends has ended; `status`: as waitpid gives it, `why`:
  /// what is behind that, for people. As which one it is to be started again; nothing: it is not.
  Result<std::optional<int>> ended(int process, int status, const std::string& why,
                                   Deadline deadline);

  /// Joins an attempt to start: the values of all ranks, by rank. From then on allgather() is that
  /// of the attempt, and fails on all ranks as soon as one has failed or is gone. `who` names this
  /// process, the same at each try.
  Result<std::vector<std::string>> join(const Rank& rank, std::string_view value,
                                        Deadline deadline);
  /// Tells all ranks that the start has failed at this one. The failure that came first: `why`
  /// itself, or that of another rank.
  Status fail(const Rank& rank, const Status& why, Deadline deadline);

  /// Begins to watch the attempt; ends with the next request. One thread may then wait in
  /// await_failure() while no other uses the store.
  Status watch(Deadline deadline);
  /// The failure of the attempt as soon as there is one; ok once `stop`, a descriptor, is readable.
  Status await_failure(int stop);

 private:
  /// The answer, whatever it is, to a request that says itself how long it waits.
  Result<store_message::Reply> exchange_until(store_message::Request request, Deadline deadline);
  /// The answer, whatever it is.
  Result<store_message::Reply> exchange(store_message::Request request, Deadline deadline);
  /// The answer, where it is not a failure.
  Result<store_message::Reply> ask(store_message::Request request, Deadline deadline);
  /// Sends a request whose answer comes when there is something to say, or before the next.
  Status begin_watch(const store_message::Request& request, Deadline deadline);
  /// The answer to that one.
  Result<store_message::Reply> end_watch() HVD_REQUIRES(mutex_);
  Status send(const store_message::Request& request, Deadline deadline) HVD_REQUIRES(mutex_);
  Result<store_message::Reply> receive(Deadline deadline) HVD_REQUIRES(mutex_);
  Mutex mutex_;
  UniqueFd socket_ HVD_GUARDED_BY(mutex_);
  bool watches_ HVD_GUARDED_BY(mutex_) = false;
};

}  // namespace hvd
