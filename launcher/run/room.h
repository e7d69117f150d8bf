// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "launcher/run/elastic_job.h"

namespace hvd {

/// Asks Slurm for the nodes that a job has now; may end early once `interrupt` is readable.
using JobNodes = std::function<Result<std::vector<std::string>>(
    const std::string& job, const Environment& environment, int interrupt)>;

/// Where the processes of an elastic job may run, as it changes.
class Room {
 public:
  virtual ~Room() = default;
  /// Readable when tell() has something to say.
  virtual int events() const = 0;
  /// Tells the job what has changed since the last call.
  virtual void tell(ElasticJob& job) = 0;
};

}  // namespace hvd
