// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "bootstrap/elastic_event.h"
#include "bootstrap/roster.h"
#include "bootstrap/store_message.h"

namespace hvd {

/// The processes of an elastic job that ask for a place, and the answers that they get.
///
/// At the start a member waits for the others until its deadline. Later it waits as long as the job
/// lasts, as does who is to come anew (a spare). Decisions only, by the clock of the machine. One
/// thread at a time.
class Admission {
 public:
  using Client = std::uint64_t;
  using Answers = std::vector<std::pair<Client, store_message::Reply>>;

  explicit Admission(const RosterPlan& plan) : roster_(plan) {}

  /// `process` (Request::rank) asks for a place.
  Answers enter(Client client, const store_message::Request& request);
  /// One more process starts, with the next number.
  void add_process() { roster_.add_process(); }
  /// The job is to have so many ranks from now on.
  Answers aim_at(int size);
  /// Rank 0 asks to hear when its membership should change: others wait for a place that it has
  /// free, or it is larger than the job is to be.
  Answers await_newcomers(Client client);
  /// The client asks for something else.
  Answers interrupt(Client client);
  /// A client is gone.
  Answers forget(Client client);
  /// A process has ended; `well`: its program has come to its end.
  Answers process_ended(int process, bool well);
  /// The job ends: members that wait, now or later, get `why`.
  Answers end_job(const Status& why);
  Answers expire();
  Deadline next_deadline() const;

  /// True while ranks of this membership may join an attempt to start.
  bool may_join(std::uint64_t epoch) const { return roster_.may_join(epoch); }
  /// All its ranks have joined.
  void met() { roster_.met(); }
  /// Who has entered and which memberships have begun since the last call.
  std::vector<ElasticEvent> take_events() { return std::exchange(events_, {}); }

 private:
  struct Entry {
    Client client = 0;
    Deadline deadline = kForever;
  };
  /// Those that wait and are members: who is to come anew waits for its end.
  Answers answer_members(const Status& why);
  /// Begins the next membership, or tells why there is none.
  void advance(Answers& answers);
  void tell_of_newcomers(Answers& answers);

  Roster roster_;
  std::map<int, std::string> who_;  ///< By process: who asked first, for people.
  std::map<int, Entry> entries_;    ///< By process: who waits for a place.
  std::set<Client> watchers_;       ///< Of newcomers.
  std::optional<Status> end_;
  std::vector<ElasticEvent> events_;
};

}  // namespace hvd
