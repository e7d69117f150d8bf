// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>

#include "double_cuda.h"

namespace double_cuda {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;  // cuMemAlloc's
constexpr std::size_t kMostFilled = std::size_t{1} << 20;
constexpr int kFresh = 0xcb;  // what nobody wrote is not a zero

/// Leaked, as Calls.
class Memories {
 public:
  static Memories& all() {
    static Memories* const memories = new Memories;
    return *memories;
  }

  void* allocate(std::size_t bytes, Memory kind, int device) {
    std::lock_guard lock(mutex_);
    const std::size_t pages = (bytes + kPage - 1) / kPage * kPage;
    // A page that cannot be touched lies behind each.
    if (base_ == 0 || pages + kPage > end_ - next_) return nullptr;
    void* const place = reinterpret_cast<void*>(next_);
    if (::mprotect(place, pages, PROT_READ | PROT_WRITE) != 0) return nullptr;
    // The end of the memory is the end of a page, as near as the alignment lets it.
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::uintptr_t begin = next_ + pages - rounded;
    next_ += pages + kPage;
    if (bytes <= kMostFilled) std::memset(reinterpret_cast<void*>(begin), kFresh, rounded);
    allocations_[begin] = {begin, bytes, kind, device};
    return reinterpret_cast<void*>(begin);
  }

  bool deallocate(std::uintptr_t begin, Memory kind) {
    std::lock_guard lock(mutex_);
    const auto found = allocations_.find(begin);
    if (found == allocations_.end() || found->second.kind != kind) return false;
    const std::uintptr_t first = begin / kPage * kPage;
    const std::size_t bytes = (begin + found->second.bytes - first + kPage - 1) / kPage * kPage;
    (void)::madvise(reinterpret_cast<void*>(first), bytes, MADV_DONTNEED);
    (void)::mprotect(reinterpret_cast<void*>(first), bytes, PROT_NONE);
    allocations_.erase(found);
    return true;
  }

  std::optional<Allocation> allocation_of(std::uintptr_t address) {
    std::lock_guard lock(mutex_);
    auto after = allocations_.upper_bound(address);
    if (after == allocations_.begin()) return std::nullopt;
    const Allocation& found = (--after)->second;
    if (address >= found.begin + found.bytes) return std::nullopt;
    return found;
  }

  bool is_ours(std::uintptr_t address) const { return address >= base_ && address < end_; }

  std::size_t allocated(int device) {
    std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [begin, one] : allocations_) {
      const int place = one.kind == Memory::kPinned ? -1 : one.device;
      if (place == device) sum += one.bytes;
    }
    return sum;
  }

 private:
  Memories() {
    // Addresses alone; less of them where they are limited.
    for (std::size_t size = std::size_t{1} << 40; size >= std::size_t{1} << 30; size /= 2) {
      void* const place =
          ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (place == MAP_FAILED) continue;
      base_ = reinterpret_cast<std::uintptr_t>(place);
      next_ = base_;
      end_ = base_ + size;
      return;
    }
  }

  std::mutex mutex_;
  std::uintptr_t base_ = 0;
  std::uintptr_t next_ = 0;
  std::uintptr_t end_ = 0;
  std::map<std::uintptr_t, Allocation> allocations_;
};

}  // namespace

void* allocate(std::size_t bytes, Memory kind, int device) {
  return Memories::all().allocate(bytes, kind, device);
}
bool deallocate(std::uintptr_t begin, Memory kind) {
  return Memories::all().deallocate(begin, kind);
}
std::atomic<bool>& free_waits() {
  static std::atomic<bool> waits{true};
  return waits;
}
std::optional<Allocation> allocation_of(std::uintptr_t address) {
  return Memories::all().allocation_of(address);
}

Range range_of(std::uintptr_t address, std::size_t bytes) {
  if (!Memories::all().is_ours(address)) return Range::kOutside;
  const auto found = allocation_of(address);
  return found && bytes <= found->begin + found->bytes - address ? Range::kInside : Range::kInvalid;
}

}  // namespace double_cuda

std::size_t double_allocated(int device) { return double_cuda::Memories::all().allocated(device); }
