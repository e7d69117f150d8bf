// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/memory_store.h"

namespace hvd {

Status MemoryStore::set(std::string_view key, std::string_view value, Deadline /*deadline*/) {
  {
    const Lock lock(mutex_);
    values_.insert_or_assign(std::string(key), std::string(value));
  }
  written_.notify_all();
  return Status::ok();
}

Result<std::string> MemoryStore::wait(std::string_view key, Deadline deadline) {
  const Lock lock(mutex_);
  for (;;) {
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    if (deadline.has_passed()) {
      return error(Code::kTimeout, "timed out waiting for the key '{}'", key);
    }
    written_.wait_until(mutex_, deadline);
  }
}

}  // namespace hvd
