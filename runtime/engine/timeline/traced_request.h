// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"

namespace hvd {

class Timeline;

/// A request's hand on the timeline of its engine, which outlives it; most requests are in none,
/// and then each call is one comparison. Immutable after construction.
class TracedRequest {
 public:
  TracedRequest() = default;
  TracedRequest(Timeline* timeline, std::uint64_t number) : timeline_(timeline), number_(number) {}

  bool is_traced() const { return timeline_ != nullptr; }
  /// All ranks have it, and it runs in this batch.
  void decided(std::uint64_t batch) const {
    if (timeline_ != nullptr) record_decided(batch);
  }
  /// Its first bytes have moved.
  void started() const {
    if (timeline_ != nullptr) record_started();
  }
  void completed(const Status& status) const {
    if (timeline_ != nullptr) record_completed(status);
  }
  /// A caller waited for `name` on this thread, until now.
  void waited(std::string_view name, Clock::duration length) const {
    if (timeline_ != nullptr) record_waited(name, length);
  }

 private:
  void record_decided(std::uint64_t batch) const;
  void record_started() const;
  void record_completed(const Status& status) const;
  void record_waited(std::string_view name, Clock::duration length) const;

  Timeline* timeline_ = nullptr;
  std::uint64_t number_ = 0;
};

}  // namespace hvd
