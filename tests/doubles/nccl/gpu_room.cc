// SPDX-License-Identifier: Apache-2.0
#include "doubles/nccl/gpu_room.h"

#include <set>
#include <utility>

#include "base/deadline.h"
#include "base/mutex.h"
#include "doubles/nccl/controls.h"

namespace double_nccl {
namespace {

struct Occupied {
  hvd::Mutex mutex;
  hvd::CondVar changed;
  std::set<std::string> gpus HVD_GUARDED_BY(mutex);
};

/// Never destroyed: streams use it until the process ends.
Occupied& occupied() {
  static auto* const made = new Occupied;
  return *made;
}

}  // namespace

GpuRoom::GpuRoom(std::string gpu, const std::function<bool()>& gives_up)
    : gpu_(std::move(gpu)), is_limited_(is_one_at_a_time()) {
  Occupied& all = occupied();
  const hvd::Lock lock(all.mutex);
  while (is_limited_ && all.gpus.contains(gpu_)) {
    if (gives_up()) return;
    // An abort rings another bell.
    all.changed.wait_until(all.mutex, hvd::Deadline::after(std::chrono::milliseconds(20)));
  }
  if (is_limited_) all.gpus.insert(gpu_);
  is_there_ = true;
}

GpuRoom::~GpuRoom() {
  if (!is_limited_ || !is_there_) return;
  Occupied& all = occupied();
  {
    const hvd::Lock lock(all.mutex);
    all.gpus.erase(gpu_);
  }
  all.changed.notify_all();
}

}  // namespace double_nccl
