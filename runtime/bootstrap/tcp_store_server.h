// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"
#include "bootstrap/elastic_event.h"
#include "bootstrap/roster.h"
#include "transport/job_key.h"
#include "transport/listener.h"

namespace hvd {

/// Serves the Store of one job over TCP: in hvdrun, or in rank 0 while the job starts.
///
/// One thread with one poll loop. A connection must prove the job key within five seconds; one
/// that cannot is refused, reported once, and disturbs nobody. Waits are parked here, so that a
/// timeout can name the ranks that did not come. Thread-safe.
class TcpStoreServer {
 public:
  static Result<std::unique_ptr<TcpStoreServer>> start(const JobKey& key, std::uint16_t port = 0);
  using OnEvent = std::function<void(ElasticEvent)>;
  /// That of an elastic job. `on_event` is called on the server's thread.
  static Result<std::unique_ptr<TcpStoreServer>> start(const JobKey& key, const RosterPlan& plan,
                                                       OnEvent on_event);
  /// Sends what is queued, then closes every connection.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  std::uint16_t port() const { return port_; }
  /// "ADDRESS:PORT[,ADDRESS:PORT...]" as in HVD_STORE; those of the interfaces `first` come first.
  std::string addresses(std::string_view first = {}) const;
  /// The same for clients on this host alone.
  std::string loopback_address() const;
  /// Whether a client that knows the key has ever come.
  bool has_served() const { return has_served_(); }
  /// The process of a rank has ended for good: ranks that wait for it, now or later, get `why`.
  void rank_ended(int rank, Status why) {
    tell_({.kind = News::Kind::kEnded, .process = rank, .why = std::move(why)});
  }
  /// The same in an elastic job, by the number of the process; see StoreBoard.
  void process_ended(int process, bool well) {
    tell_({.kind = News::Kind::kEnded, .process = process, .well = well});
  }
  /// The elastic job ends: ranks that wait for a place, now or later, get `why`.
  void end_job(Status why) { tell_({.kind = News::Kind::kJobEnds, .why = std::move(why)}); }
  /// A process of it on another node is to be killed by the hvdrun beside it.
  void kill(int process) { tell_({.kind = News::Kind::kKill, .process = process}); }
  /// That hvdrun, which has said that its process has ended, is to start it again as `successor`;
  /// negative: it may go.
  void answer_end(int process, int successor) {
    tell_({.kind = News::Kind::kAnswer, .process = process, .successor = successor});
  }
  /// The elastic job has one more process, with the next number.
  void add_process() { tell_({.kind = News::Kind::kAdd}); }
  /// The elastic job is to have so many ranks from now on.
  void aim_at(int size) { tell_({.kind = News::Kind::kAim, .size = size}); }

  /// What the owner has to tell.
  struct News {
    enum class Kind { kEnded, kJobEnds, kKill, kAnswer, kAdd, kAim };
    Kind kind = Kind::kEnded;
    int process = -1;
    Status why = Status::ok();
    bool well = false;
    int successor = -1;
    int size = 0;
  };

 private:
  struct Elastic {
    RosterPlan plan;
    OnEvent on_event;
  };
  static Result<std::unique_ptr<TcpStoreServer>> start(const JobKey& key, std::uint16_t port,
                                                       std::optional<Elastic> elastic);
  TcpStoreServer(Listener listener, UniqueFd stop, UniqueFd bell, const JobKey& key,
                 std::optional<Elastic> elastic);
  std::uint16_t port_;
  UniqueFd stop_;
  std::thread thread_;
  std::function<bool()> has_served_;
  std::function<void(News)> tell_;
};

}  // namespace hvd
