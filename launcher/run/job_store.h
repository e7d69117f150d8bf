// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bootstrap/roster.h"

namespace hvd {

/// Where the ranks that hvdrun forks meet: the store, served by hvdrun, and the job's key.
class JobStore {
 public:
  /// Raises the limit of open files where `ranks` need it: the store has a connection of each, the
  /// supervisor pipes. kSystem where the hard limit is too low.
  static Result<std::unique_ptr<JobStore>> start(int ranks);
  /// That of an elastic job, whose processes ask it for their ranks.
  static Result<std::unique_ptr<JobStore>> start(RosterPlan plan);
  virtual ~JobStore() = default;
  virtual std::string address() const = 0;  ///< HVD_STORE
  virtual std::string key() const = 0;      ///< HVD_JOB_KEY
  virtual bool was_reached() const = 0;     ///< Whether a rank has ever come, as hvd.init() does.
  /// The process of a rank has ended, as `how` says ("exit code 3"): nobody waits for it any more.
  virtual void rank_ended(int rank, const std::string& host, const std::string& how) = 0;

  /// The same in an elastic job; `well`: its program has come to its end.
  virtual void process_ended(int process, bool well) = 0;
  /// The elastic job ends: nobody gets a rank any more, because of `why`.
  virtual void end_job(const std::string& why) = 0;
  /// Readable when take_begun() has more to give.
  virtual int begun() const = 0;
  /// The memberships of an elastic job that have begun since the last call.
  virtual std::vector<Membership> take_begun() = 0;
};

}  // namespace hvd
