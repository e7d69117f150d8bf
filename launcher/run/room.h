// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/run/elastic_job.h"

namespace hvd {

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
