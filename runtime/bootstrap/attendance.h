// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "bootstrap/elastic_event.h"
#include "bootstrap/store_message.h"

namespace hvd {

/// Who attends the processes of an elastic job that run on other nodes: an hvdrun beside each,
/// which says how it ends, and ends it on demand. Its request stays with the store until there is
/// something to say to it. Decisions only. One thread at a time.
class Attendance {
 public:
  using Client = std::uint64_t;
  using Answer = std::pair<Client, store_message::Reply>;

  /// Processes are numbered from 0.
  explicit Attendance(int processes) : processes_(processes) {}

  /// The client attends a process (Request::rank) on a host (Request::key).
  std::optional<Answer> attend(Client client, const store_message::Request& request);
  /// It says that its process has ended, and waits for answer_end().
  std::optional<Answer> ended(Client client, const store_message::Request& request);
  /// Whoever attended the process is to start it again as `successor`; negative: it may go.
  std::optional<Answer> answer_end(int process, int successor);
  /// One more process, with the next number.
  void add_process() { ++processes_; }
  /// The client asks for something else, or is gone; the answer is for one that waits.
  std::optional<Answer> interrupt(Client client);
  void forget(Client client);
  /// The process is to be killed by who attends it, now or as soon as that has come.
  std::optional<Answer> kill(int process);

  /// What has happened since the last call.
  std::vector<ElasticEvent> take_events() { return std::exchange(events_, {}); }

 private:
  int processes_;
  std::map<int, Client> clients_;  ///< By living process: who attends it.
  std::set<Client> waiting_;       ///< Whose request is here.
  std::set<int> condemned_;        ///< To be killed.
  std::set<int> ended_;
  std::map<Client, int> successors_;  ///< By client that is to start one: its number.
  std::map<int, Client> reporters_;   ///< By process that has ended: who waits for an answer.
  std::vector<ElasticEvent> events_;
};

}  // namespace hvd
