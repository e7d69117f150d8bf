// SPDX-License-Identifier: Apache-2.0
#include "transport/shared_arena.h"

#include <iterator>
#include <utility>

#include "base/rounding.h"

namespace hvd {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
/// Blocks from here on give their pages back when they are freed, as malloc's large ones do.
constexpr std::size_t kLargeBytes = std::size_t{1} << 20;

}  // namespace

SharedArena::SharedArena(std::shared_ptr<const SharedSegment> segment, int local_rank,
                         int local_size)
    : segment_(std::move(segment)),
      base_(segment_->arenas().data()),
      part_bytes_(segment_->arenas().size() / static_cast<std::size_t>(local_size)),
      mine_(at(local_rank, 0)) {
  if (part_bytes_ > 0) free_.emplace(0, part_bytes_);
}

Result<void*> SharedArena::allocate(std::size_t bytes) {
  const std::size_t unit = bytes >= kPage ? kPage : kLine;
  if (part_bytes_ == 0) {
    return error(Code::kSystem,
                 "the ranks of this node share no memory for tensors: HVD_ARENA_BYTES is 0, or the "
                 "process may not have so many addresses (`ulimit -v`)");
  }
  if (bytes > part_bytes_) {
    return error(Code::kSystem,
                 "{} bytes do not fit into the {} MiB that each rank may share; set "
                 "HVD_ARENA_BYTES to more",
                 bytes, part_bytes_ >> 20);
  }
  const std::size_t wanted = round_up(bytes == 0 ? 1 : bytes, kLine);
  Lock lock(mutex_);
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    const std::size_t begin = round_up(block->first, unit);
    const std::size_t end = block->first + block->second;
    if (begin >= end || end - begin < wanted) continue;
    HVD_TRY(segment_->reserve({mine_ + begin, wanted}));
    const std::size_t first = block->first;
    free_.erase(block);
    if (begin > first) free_.emplace(first, begin - first);
    if (end > begin + wanted) free_.emplace(begin + wanted, end - begin - wanted);
    used_.emplace(begin, wanted);
    used_bytes_ += wanted;
    return static_cast<void*>(mine_ + begin);
  }
  return error(Code::kSystem,
               "no room for {} bytes: {} of the {} MiB that this rank may share are in use; free "
               "some, or set HVD_ARENA_BYTES to more",
               bytes, used_bytes_ >> 20, part_bytes_ >> 20);
}

bool SharedArena::deallocate(void* memory) {
  const auto offset = offset_of(memory, 0);
  if (!offset) return false;
  Lock lock(mutex_);
  const auto block = used_.find(*offset);
  if (block == used_.end()) return false;
  const std::size_t bytes = block->second;
  used_.erase(block);
  if (keeps_) return true;
  used_bytes_ -= bytes;
  if (bytes >= kLargeBytes) segment_->release({mine_ + *offset, bytes});
  give_back(*offset, bytes);
  return true;
}

void SharedArena::give_back(std::size_t begin, std::size_t bytes) {
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == begin + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(begin, bytes);
}

void SharedArena::keep() {
  Lock lock(mutex_);
  keeps_ = true;
}

std::size_t SharedArena::used_bytes() const {
  Lock lock(mutex_);
  return used_bytes_;
}

std::optional<std::size_t> SharedArena::offset_of(const void* data, std::size_t bytes) const {
  // Compared as numbers: `data` need not point into the arena.
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const auto mine = reinterpret_cast<std::uintptr_t>(mine_);
  if (begin < mine || begin - mine > part_bytes_ || bytes > part_bytes_ - (begin - mine)) {
    return std::nullopt;
  }
  return begin - mine;
}

}  // namespace hvd
