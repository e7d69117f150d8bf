// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace hvd {

/// Where the ranks that hvdrun forks meet: the store, served by hvdrun, and the job's key.
class JobStore {
 public:
  /// Raises the limit of open files where `ranks` need it: the store has a connection of each, the
  /// supervisor pipes. kSystem where the hard limit is too low.
  static Result<std::unique_ptr<JobStore>> start(int ranks);
  virtual ~JobStore() = default;
  virtual std::string address() const = 0;  ///< HVD_STORE
  virtual std::string key() const = 0;      ///< HVD_JOB_KEY
  virtual bool was_reached() const = 0;     ///< Whether a rank has ever come, as hvd.init() does.
  /// The process of a rank has ended, as `how` says ("exit code 3"): nobody waits for it any more.
  virtual void rank_ended(int rank, const std::string& host, const std::string& how) = 0;
};

}  // namespace hvd
