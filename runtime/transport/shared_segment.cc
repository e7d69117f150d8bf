// SPDX-License-Identifier: Apache-2.0
#include "transport/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/rounding.h"

namespace hvd {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::size_t round_to_page(std::size_t bytes) { return round_up(bytes, kPageBytes); }

std::size_t words_bytes(int local_size) {
  return round_to_page(static_cast<std::size_t>(local_size) * sizeof(SleepWord));
}

/// Up to the arenas.
std::size_t reserved_bytes(const SegmentLayout& layout) {
  return words_bytes(layout.local_size) + round_to_page(layout.memory_bytes);
}

std::size_t total_bytes(const SegmentLayout& layout) {
  return reserved_bytes(layout) +
         static_cast<std::size_t>(layout.local_size) * round_to_page(layout.arena_bytes);
}

/// Memory that the kernel could still give out, from /proc/meminfo; "unlimited" where unknown.
std::size_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::size_t kibibytes = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes << 10;
  }
  return std::numeric_limits<std::size_t>::max();
}

/// Makes the pages real; says why not in a sentence that begins with `what`.
Status back_with_memory(int fd, std::size_t offset, std::size_t bytes, const std::string& what) {
  // A memfd has no size limit: without this look fallocate would fill the machine until the
  // out-of-memory killer comes.
  if (const std::size_t available = available_bytes(); bytes > available) {
    return error(Code::kSystem,
                 "{}: only {} MiB are available on this host; use fewer ranks per node or a node "
                 "with more memory",
                 what, available >> 20);
  }
  // fallocate rather than ftruncate: what is missing is refused here, not by SIGBUS in mid-step.
  int result = 0;
  do {
    result = ::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return Status::ok();
  return Status::system(format_text("{}; ask for more memory for the job (sbatch --mem) or raise "
                                    "the container's memory limit",
                                    what),
                        errno);
}

Result<std::shared_ptr<SharedSegment>> map(UniqueFd fd, int flags, const SegmentLayout& layout) {
  const std::size_t bytes = total_bytes(layout);
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd.get(), 0);
  if (address == MAP_FAILED) {
    return Status::system(
        format_text("cannot map {} MiB of shared memory; check `ulimit -v`, or set a smaller "
                    "HVD_ARENA_BYTES (0: none)",
                    bytes >> 20),
        errno);
  }
  return std::make_shared<SharedSegment>(address, bytes, std::move(fd), layout);
}

}  // namespace

Result<std::shared_ptr<SharedSegment>> SharedSegment::create_private(const SegmentLayout& layout) {
  return map(UniqueFd(), MAP_SHARED | MAP_ANONYMOUS, layout);
}

Result<std::shared_ptr<SharedSegment>> SharedSegment::create(const SegmentLayout& layout) {
  UniqueFd fd(::memfd_create("hvd", MFD_CLOEXEC));
  if (!fd.is_open()) return Status::system("cannot create shared memory (memfd_create)", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(total_bytes(layout))) != 0) {
    return Status::system(
        format_text("cannot set aside {} MiB of addresses for shared memory; set a smaller "
                    "HVD_ARENA_BYTES (0: none)",
                    total_bytes(layout) >> 20),
        errno);
  }
  // fallocate() takes pages by the memory policy of its caller: all of this lies on the leader's
  // NUMA node, or where its binding says. A rank's slots are half a MiB and stay in its cache, and
  // no rank finds out later that there is no memory for its own. Arenas are taken by the ranks they
  // belong to.
  const std::size_t bytes = reserved_bytes(layout);
  HVD_TRY(back_with_memory(fd.get(), 0, bytes,
                           format_text("cannot reserve {} MiB of shared memory for {} local ranks",
                                       (bytes + (1 << 20) - 1) >> 20, layout.local_size)));
  auto segment = map(std::move(fd), MAP_SHARED, layout);
  if (segment.is_ok() || layout.arena_bytes == 0) return segment;
  // Where addresses are rationed (ulimit -v) collectives come first; hvd_alloc() says what lacks.
  log(LogLevel::kInfo, "bootstrap", "no shared arena: {}", segment.status().message());
  return create({layout.local_size, layout.memory_bytes, 0});
}

Result<std::shared_ptr<SharedSegment>> SharedSegment::open(UniqueFd fd,
                                                           const SegmentLayout& layout) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return Status::system("fstat of a shared segment", errno);
  const auto found = static_cast<std::size_t>(status.st_size);
  const SegmentLayout without_arena{layout.local_size, layout.memory_bytes, 0};
  if (found == total_bytes(without_arena)) return map(std::move(fd), MAP_SHARED, without_arena);
  const std::size_t wanted = total_bytes(layout);
  if (found != wanted) {
    return error(Code::kMismatch,
                 "the shared segment of the node has {} bytes, this rank expects {}: the ranks run "
                 "different versions or settings (HVD_ARENA_BYTES) of libhvd",
                 found, wanted);
  }
  return map(std::move(fd), MAP_SHARED, layout);
}

SharedSegment::SharedSegment(void* address, std::size_t mapped_bytes, UniqueFd fd,
                             const SegmentLayout& layout)
    : address_(address),
      mapped_bytes_(mapped_bytes),
      fd_(std::move(fd)),
      words_(static_cast<SleepWord*>(address), static_cast<std::size_t>(layout.local_size)),
      memory_(static_cast<std::byte*>(address) + words_bytes(layout.local_size),
              layout.memory_bytes),
      arenas_(static_cast<std::byte*>(address) + reserved_bytes(layout),
              mapped_bytes - reserved_bytes(layout)) {}

SharedSegment::~SharedSegment() { ::munmap(address_, mapped_bytes_); }

Status SharedSegment::reserve(std::span<std::byte> part) const {
  if (!fd_.is_open()) return Status::ok();  // memory of this process: taken at first touch
  const auto offset = static_cast<std::size_t>(part.data() - static_cast<std::byte*>(address_));
  const std::size_t begin = offset / kPageBytes * kPageBytes;
  return back_with_memory(
      fd_.get(), begin, round_to_page(offset + part.size()) - begin,
      format_text("cannot take {} bytes of memory that the ranks of the node share", part.size()));
}

void SharedSegment::release(std::span<std::byte> part) const {
  const auto offset = static_cast<std::size_t>(part.data() - static_cast<std::byte*>(address_));
  const std::size_t begin = round_to_page(offset);
  const std::size_t end = (offset + part.size()) / kPageBytes * kPageBytes;
  // Punches a hole into the file behind the mapping. Where the kernel refuses, the pages stay
  // until the mapping goes.
  if (end > begin) ::madvise(static_cast<std::byte*>(address_) + begin, end - begin, MADV_REMOVE);
}

}  // namespace hvd
