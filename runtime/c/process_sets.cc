// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "c/guard.h"
#include "c/process.h"
#include "c/settings.h"
#include "hvd/hvd.h"

namespace {

using hvd::Code;
using hvd::error;
using hvd::guarded;
using hvd::Process;
using hvd::Result;
using hvd::Status;

Result<std::vector<int>> ranks_of(int process_set) {
  HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
  return engine->process_set_ranks(process_set);
}

Status hand_out(const std::vector<int>& list, int32_t* target, uint32_t capacity, uint32_t* count) {
  if (count == nullptr || (target == nullptr && capacity > 0)) {
    return error(Code::kInvalidArgument, "process sets: {} is null",
                 count == nullptr ? "count" : "the list to fill");
  }
  std::copy_n(list.begin(), std::min<std::size_t>(list.size(), capacity), target);
  *count = static_cast<uint32_t>(list.size());
  return Status::ok();
}

}  // namespace

hvd_status hvd_process_set_add(const int32_t* ranks, uint32_t count, double timeout_seconds,
                               int32_t* process_set) noexcept {
  return guarded([&]() -> Status {
    if ((ranks == nullptr && count > 0) || process_set == nullptr) {
      return error(Code::kInvalidArgument, "hvd_process_set_add: {} is null",
                   process_set == nullptr ? "process_set" : "ranks");
    }
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    HVD_TRY_ASSIGN(*process_set, engine->add_process_set(std::vector<int>(ranks, ranks + count),
                                                         hvd::deadline_after(timeout_seconds)));
    return Status::ok();
  });
}

hvd_status hvd_process_set_remove(int32_t process_set, double timeout_seconds) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    return engine->remove_process_set(process_set, hvd::deadline_after(timeout_seconds));
  });
}

int hvd_process_set_count() noexcept {
  int count = -1;
  static_cast<void>(guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    count = static_cast<int>(engine->process_sets().size());
    return Status::ok();
  }));
  return count;
}

hvd_status hvd_process_set_ids(int32_t* ids, uint32_t capacity, uint32_t* count) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    return hand_out(engine->process_sets(), ids, capacity, count);
  });
}

hvd_status hvd_process_set_ranks(int32_t process_set, int32_t* ranks, uint32_t capacity,
                                 uint32_t* count) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto list, ranks_of(process_set));
    return hand_out(list, ranks, capacity, count);
  });
}

int hvd_process_set_rank(int32_t process_set) noexcept {
  int place = -1;
  static_cast<void>(guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    HVD_TRY_ASSIGN(const auto list, engine->process_set_ranks(process_set));
    const int rank = engine->world().rank;
    const auto found = std::lower_bound(list.begin(), list.end(), rank);
    if (found == list.end() || *found != rank) {
      return error(Code::kInvalidArgument, "rank {} is not in process set {}", rank, process_set);
    }
    place = static_cast<int>(found - list.begin());
    return Status::ok();
  }));
  return place;
}

int hvd_process_set_size(int32_t process_set) noexcept {
  int size = -1;
  static_cast<void>(guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto list, ranks_of(process_set));
    size = static_cast<int>(list.size());
    return Status::ok();
  }));
  return size;
}

hvd_status hvd_join(int32_t process_set, int32_t active_average, double timeout_seconds,
                    int32_t* last_rank) noexcept {
  return guarded([&]() -> Status {
    HVD_TRY_ASSIGN(const auto engine, Process::instance().engine());
    HVD_TRY_ASSIGN(const int last, engine->join(process_set, active_average != 0,
                                                hvd::deadline_after(timeout_seconds)));
    if (last_rank != nullptr) *last_rank = last;
    return Status::ok();
  });
}
