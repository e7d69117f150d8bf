// SPDX-License-Identifier: Apache-2.0
#include "device/ready_points.h"

#include <algorithm>
#include <utility>

namespace hvd {

Result<GpuEventPtr> ReadyPoint::event() {
  Lock lock(mutex_);
  if (event_ == nullptr) {
    // A capture that began meanwhile would take the event, and what waits for it, into its graph.
    HVD_TRY(gpu_.check_stream(stream_));
    HVD_TRY_ASSIGN(event_, gpu_.record(stream_));
  }
  return event_;
}

bool ReadyPoint::is_recorded() {
  Lock lock(mutex_);
  return event_ != nullptr;
}

ReadyPointPtr ReadyPoints::join(Gpu& gpu, StreamHandle stream) {
  Lock lock(mutex_);
  // The engine may have come before those who leave together had all joined.
  std::erase_if(open_, [](const ReadyPointPtr& point) { return point->is_recorded(); });
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const ReadyPointPtr& point) {
    return &point->gpu() == &gpu && point->stream() == stream;
  });
  if (found != open_.end()) return *found;
  return open_.emplace_back(std::make_shared<ReadyPoint>(gpu, stream));
}

Status ReadyPoints::close() {
  std::vector<ReadyPointPtr> closing;
  {
    Lock lock(mutex_);
    closing = std::exchange(open_, {});
  }
  // All of them: streams may end after this.
  Status first;
  for (const ReadyPointPtr& point : closing) {
    const auto event = point->event();
    if (first.is_ok() && !event.is_ok()) first = event.status();
  }
  return first;
}

}  // namespace hvd
