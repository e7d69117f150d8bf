// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "collective/backend.h"

namespace hvd {

/// What each rank of a communicator tells all others, over host memory: equally many bytes.
/// Engine thread only.
class ToldByAll {
 public:
  /// From Backend::start() or prepare() only, as BackendContext::start_on_host.
  static Result<std::unique_ptr<ToldByAll>> start(const BackendContext& context,
                                                  std::span<const std::byte> mine);
  ToldByAll(const ToldByAll&) = delete;
  ToldByAll& operator=(const ToldByAll&) = delete;

  Progress advance() { return task_->advance(); }
  const Status& status() const { return task_->status(); }
  bool needs_polling() const { return task_->needs_polling(); }
  /// Once it is done: by rank, one after the other.
  std::span<const std::byte> all() const { return all_; }

 private:
  explicit ToldByAll(std::span<const std::byte> mine) : mine_(mine.begin(), mine.end()) {}

  std::vector<std::byte> mine_;
  std::vector<std::byte> all_;
  std::unique_ptr<Task> task_;
};

}  // namespace hvd
