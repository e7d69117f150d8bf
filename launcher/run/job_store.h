// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bootstrap/elastic_event.h"
#include "bootstrap/roster.h"

namespace hvd {

/// Where the ranks that hvdrun forks meet: the store, served by hvdrun, and the job's key.
class JobStore {
 public:
  /// Raises the limit of open files where `ranks` need it: the store has a connection of each, the
  /// supervisor pipes. kSystem where the hard limit is too low.
  static Result<std::unique_ptr<JobStore>> start(int ranks);
  /// That of an elastic job, whose processes ask it for their ranks.
  static Result<std::unique_ptr<JobStore>> start(const RosterPlan& plan);
  virtual ~JobStore() = default;
  /// HVD_STORE for processes on this host.
  virtual std::string address() const = 0;
  /// The same for those on other hosts, which try the interfaces `first` first.
  virtual std::string addresses(const std::string& first) const = 0;
  virtual std::string key() const = 0;   ///< HVD_JOB_KEY
  virtual bool was_reached() const = 0;  ///< Whether a rank has ever come, as hvd.init() does.
  /// The process of a rank has ended, as `how` says ("exit code 3"): nobody waits for it any more.
  virtual void rank_ended(int rank, const std::string& host, const std::string& how) = 0;

  /// The same in an elastic job; `well`: its program has come to its end.
  virtual void process_ended(int process, bool well) = 0;
  /// The elastic job ends: nobody gets a rank any more, because of `why`.
  virtual void end_job(const std::string& why) = 0;
  /// A process on another host is to be killed, by the hvdrun beside it.
  virtual void kill(int process) = 0;
  /// Whoever has said the end of a process on another host is to start it again as `successor`;
  /// negative: it may go.
  virtual void answer_end(int process, int successor) = 0;
  /// An elastic job has one more process, with the next number.
  virtual void add_process() = 0;
  /// It is to have so many ranks from now on.
  virtual void aim_at(int size) = 0;
  /// Readable when take_events() has more to give.
  virtual int events() const = 0;
  /// What has happened in an elastic job since the last call.
  virtual std::vector<ElasticEvent> take_events() = 0;
};

}  // namespace hvd
