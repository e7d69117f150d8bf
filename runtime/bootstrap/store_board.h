// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "bootstrap/admission.h"
#include "bootstrap/attendance.h"
#include "bootstrap/roster.h"
#include "bootstrap/store_message.h"

namespace hvd {

/// What a store server knows: the values, who waits for what, and the attempts of the job to start.
/// No sockets: decisions only.
///
/// A start is an attempt. All ranks join it; from then on the rounds of a client are those of its
/// attempt, and nothing of one attempt is seen in another. What a client has given counts only as
/// long as it waits: a timeout or a lost connection takes it back. The first failure of an attempt
/// answers all that wait in it, and what they ask later. A failure before all have joined is told
/// to each rank once, and forgotten when the rank that failed joins again.
/// In an elastic job the processes enter first, and get a place in a membership (Admission); the
/// ranks of that alone join the next attempt. What fails there is one rank: to the others it is
/// lost. One thread at a time.
class StoreBoard {
 public:
  /// `plan`: of an elastic job.
  explicit StoreBoard(const std::optional<RosterPlan>& plan = std::nullopt) {
    if (!plan) return;
    admission_.emplace(*plan);
    attendance_.emplace(plan->processes);
  }

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
  /// A client is gone: takes back what it has given, and tells those who wait for it.
  std::vector<Answer> forget(Client client);
  /// The store itself cannot serve all ranks: those who join hear of it, now or later.
  std::vector<Answer> fail_joining(const Status& why);
  /// The process of a rank has ended for good: who joins from now on would wait in vain. In an
  /// elastic job it is the process of that number, and `well` says that its program came to its
  /// end.
  std::vector<Answer> rank_ended(int rank, const Status& why, bool well = false);
  /// The elastic job ends: ranks that wait for a place, now or later, get `why`.
  std::vector<Answer> end_job(const Status& why);
  /// A process of an elastic job is to be killed by who attends it.
  std::vector<Answer> kill(int process);
  /// One that has ended is to be started again as `successor`; negative: it is not.
  std::vector<Answer> answer_end(int process, int successor);
  /// An elastic job has one more process, with the next number.
  void add_process();
  /// An elastic job is to have so many ranks from now on.
  std::vector<Answer> aim_at(int size);
  /// What has happened in an elastic job since the last call.
  std::vector<ElasticEvent> take_events();

 private:
  using Attempt = std::uint64_t;  ///< 0: of clients that have joined none.
  using RoundKey = std::pair<Attempt, std::string>;
  struct Entry {
    Client client = 0;
    bool joins = false;
    std::string who;
    std::string value;
    Deadline deadline = kForever;
  };
  struct Round {
    int size = 0;
    std::map<int, Entry> entries;  ///< By rank.
    std::uint64_t epoch = 0;       ///< Of the ranks of an elastic job that join; 0: not such.
  };
  struct Waiting {
    Client client = 0;
    std::string key;
    Deadline deadline = kForever;
  };
  struct Member {
    Attempt attempt = 0;
    int rank = 0;
    std::string who;
  };
  struct Start {
    int left = 0;  ///< Members still connected.
    std::optional<Status> failure = std::nullopt;
  };
  struct Failure {
    std::uint64_t number = 0;
    Status why;
  };

  std::vector<Answer> set(Client client, store_message::Request request);
  std::vector<Answer> gather(Client client, store_message::Request request);
  std::vector<Answer> watch(Client client);
  std::vector<Answer> enter(Client client, const store_message::Request& request);
  std::vector<Answer> fail(Client client, const store_message::Request& request);
  std::vector<Answer> await_newcomers(Client client);
  std::vector<Answer> attend(Client client, const store_message::Request& request);

  /// Answers as those of the board, and of joining ranks whose membership is void now.
  std::vector<Answer> admitted(Admission::Answers admitted);
  Attempt attempt_of(Client client) const;
  /// Why a rank that joins must not wait; nothing: it may.
  std::optional<Status> unheard_failure(int rank);
  std::optional<Status> check_entry(const Round& round,
                                    const store_message::Request& request) const;
  std::vector<Answer> complete(const RoundKey& key);
  /// Remembers the failure and answers all that wait to join.
  std::vector<Answer> fail_joining(int rank, const Status& why);
  std::vector<Answer> answer_joining(const Status& why);
  std::vector<Answer> fail_attempt(Attempt attempt, const Status& why);
  void answer_round(const RoundKey& key, const Status& why, std::vector<Answer>& answers);
  std::vector<Answer> leave(Client client);
  std::vector<Answer> expire_round(const RoundKey& key);
  std::vector<Answer> withdraw(Client client);

  std::map<std::string, std::string> values_;
  std::vector<Waiting> waiting_;  ///< For keys.
  std::map<RoundKey, Round> rounds_;
  std::map<Client, Member> members_;
  std::map<Attempt, Start> attempts_;
  std::map<Client, Attempt> watching_;
  std::map<int, Failure> failures_;     ///< Before all have joined, by rank; -1: of the store.
  std::map<int, std::uint64_t> heard_;  ///< The last failure that each rank was told of.
  std::optional<Status> ended_;         ///< Of the first rank whose process is no more.
  std::optional<Admission> admission_;  ///< Of an elastic job, as the next.
  std::optional<Attendance> attendance_;
  Attempt last_attempt_ = 0;
  std::uint64_t last_failure_ = 0;
};

}  // namespace hvd
