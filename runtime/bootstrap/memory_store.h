// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "bootstrap/store.h"

namespace hvd {

/// A store for ranks that are threads of one process. Thread-safe.
class MemoryStore : public Store {
 public:
  std::string_view name() const override { return "memory"; }
  Status set(std::string_view key, std::string_view value, Deadline deadline) override;
  Result<std::string> wait(std::string_view key, Deadline deadline) override;

 private:
  Mutex mutex_;
  CondVar written_;
  std::map<std::string, std::string, std::less<>> values_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd
