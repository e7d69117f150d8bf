// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace hvd {

/// Where the ranks that hvdrun forks meet: the store, served by hvdrun, and the job's key.
class JobStore {
 public:
  static Result<std::unique_ptr<JobStore>> start();
  virtual ~JobStore() = default;
  virtual std::string address() const = 0;  ///< HVD_STORE
  virtual std::string key() const = 0;      ///< HVD_JOB_KEY
};

}  // namespace hvd
