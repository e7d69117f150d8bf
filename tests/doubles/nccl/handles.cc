// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "doubles/nccl/communicator.h"
#include "doubles/nccl/double_nccl.h"

namespace double_nccl {
namespace {

constexpr std::size_t kWindowGranule = std::size_t{2} << 20;

}  // namespace

Handles& Handles::get() {
  static auto* const made = new Handles;  // threads of streams may outlive static objects
  return *made;
}

ncclComm_t Handles::add(CommunicatorPtr communicator) {
  const hvd::Lock lock(mutex_);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a name that nobody follows
  const auto handle = reinterpret_cast<ncclComm_t>(static_cast<std::uintptr_t>(next_++ << 4U));
  communicators_[handle] = std::move(communicator);
  return handle;
}

CommunicatorPtr Handles::find(ncclComm_t handle) {
  const hvd::Lock lock(mutex_);
  const auto found = communicators_.find(handle);
  return found == communicators_.end() ? nullptr : found->second;
}

void Handles::remove(ncclComm_t handle) {
  CommunicatorPtr last;  // destroyed after the lock: that may end threads
  const hvd::Lock lock(mutex_);
  const auto found = communicators_.find(handle);
  if (found == communicators_.end()) return;
  last = std::move(found->second);
  communicators_.erase(found);
  std::erase_if(registrations_, [&](const auto& item) { return item.second.owner == handle; });
}

void* Handles::add_registration(ncclComm_t owner, void* buffer, std::size_t bytes, int place) {
  const hvd::Lock lock(mutex_);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a name that nobody follows
  void* handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(next_++ << 4U));
  registrations_[handle] = {owner, buffer, bytes, place};
  return handle;
}

bool Handles::remove_registration(ncclComm_t owner, void* handle, bool is_window) {
  const hvd::Lock lock(mutex_);
  const auto found = registrations_.find(handle);
  if (found == registrations_.end() || found->second.owner != owner) return false;
  if (is_window != (found->second.place != kNoWindow)) return false;
  registrations_.erase(found);
  return true;
}

int Handles::free_place(ncclComm_t owner, std::size_t bytes) {
  const auto granules = [](std::size_t size) {
    return static_cast<int>((size + kWindowGranule - 1) / kWindowGranule);
  };
  const hvd::Lock lock(mutex_);
  std::map<int, int> taken;  // begin and end, in granules
  for (const auto& [handle, registration] : registrations_) {
    const int place = registration.place;
    if (registration.owner != owner || place == kNoWindow) continue;
    taken[place] = place + granules(registration.bytes);
  }
  int place = 0;
  for (const auto& [begin, end] : taken) {
    if (place + granules(bytes) <= begin) break;
    place = end;
  }
  return place;
}

bool Handles::has_registrations(ncclComm_t owner) {
  const hvd::Lock lock(mutex_);
  return std::any_of(registrations_.begin(), registrations_.end(),
                     [&](const auto& item) { return item.second.owner == owner; });
}

bool Handles::is_registered(ncclComm_t owner, const void* memory, std::size_t bytes) {
  const hvd::Lock lock(mutex_);
  const auto* begin = static_cast<const std::byte*>(memory);
  return std::any_of(registrations_.begin(), registrations_.end(), [&](const auto& item) {
    const Registration& registration = item.second;
    const auto* first = static_cast<const std::byte*>(registration.buffer);
    return registration.owner == owner && begin >= first &&
           begin + bytes <= first + registration.bytes;
  });
}

void Handles::add_allocation(void* memory, std::size_t bytes) {
  const hvd::Lock lock(mutex_);
  allocations_[memory] = bytes;
}

bool Handles::is_allocated(const void* memory, std::size_t bytes) {
  const hvd::Lock lock(mutex_);
  const auto* begin = static_cast<const std::byte*>(memory);
  for (const auto& [allocation, size] : allocations_) {
    const auto* first = static_cast<const std::byte*>(allocation);
    if (begin >= first && begin + bytes <= first + size) return true;
  }
  return false;
}

bool Handles::remove_allocation(void* memory) {
  const hvd::Lock lock(mutex_);
  const auto found = allocations_.find(memory);
  if (found == allocations_.end()) return false;
  const auto* begin = static_cast<std::byte*>(memory);
  for (const auto& [handle, registration] : registrations_) {
    const auto* buffer = static_cast<std::byte*>(registration.buffer);
    if (buffer >= begin && buffer < begin + found->second) {
      complain("ncclMemFree of memory that is registered");
      break;
    }
  }
  allocations_.erase(found);
  return true;
}

int Handles::alive() {
  const hvd::Lock lock(mutex_);
  return static_cast<int>(communicators_.size() + registrations_.size() + allocations_.size());
}

}  // namespace double_nccl

int double_nccl_alive() { return double_nccl::Handles::get().alive(); }
