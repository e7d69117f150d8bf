// SPDX-License-Identifier: Apache-2.0
#include "transport/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

namespace hvd {
namespace {

constexpr std::size_t kPageBytes = 4096;

std::size_t round_to_page(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

std::size_t words_bytes(int local_size) {
  return round_to_page(static_cast<std::size_t>(local_size) * sizeof(SleepWord));
}

std::size_t total_bytes(int local_size, std::size_t memory_bytes) {
  return words_bytes(local_size) + round_to_page(memory_bytes);
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

Result<std::shared_ptr<SharedSegment>> map(UniqueFd fd, int flags, int local_size,
                                           std::size_t memory_bytes) {
  const std::size_t bytes = total_bytes(local_size, memory_bytes);
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd.get(), 0);
  if (address == MAP_FAILED) {
    return Status::system(
        format_text("cannot map {} MiB of shared memory; check `ulimit -v`", bytes >> 20), errno);
  }
  return std::make_shared<SharedSegment>(address, bytes, std::move(fd), local_size, memory_bytes);
}

}  // namespace

Result<std::shared_ptr<SharedSegment>> SharedSegment::create_private(int local_size,
                                                                     std::size_t memory_bytes) {
  return map(UniqueFd(), MAP_SHARED | MAP_ANONYMOUS, local_size, memory_bytes);
}

Result<std::shared_ptr<SharedSegment>> SharedSegment::create(int local_size,
                                                             std::size_t memory_bytes) {
  UniqueFd fd(::memfd_create("hvd", MFD_CLOEXEC));
  if (!fd.is_open()) return Status::system("cannot create shared memory (memfd_create)", errno);
  const std::size_t bytes = total_bytes(local_size, memory_bytes);
  // A memfd has no size limit: without this look fallocate would fill the machine until the
  // out-of-memory killer comes.
  if (const std::size_t available = available_bytes(); bytes > available) {
    return error(Code::kSystem,
                 "cannot reserve {} MiB of shared memory for {} local ranks: only {} MiB are "
                 "available on this host; use fewer ranks per node or a node with more memory",
                 bytes >> 20, local_size, available >> 20);
  }
  // fallocate rather than ftruncate: what is missing is refused here, not by SIGBUS in mid-step.
  int result = 0;
  do {
    result = ::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    const int cause = errno;
    return Status::system(
        format_text("cannot reserve {} MiB of shared memory for {} local ranks; ask for more "
                    "memory for the job (sbatch --mem) or raise the container's memory limit",
                    (bytes + (1 << 20) - 1) >> 20, local_size),
        cause);
  }
  return map(std::move(fd), MAP_SHARED, local_size, memory_bytes);
}

Result<std::shared_ptr<SharedSegment>> SharedSegment::open(UniqueFd fd, int local_size,
                                                           std::size_t memory_bytes) {
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return Status::system("fstat of a shared segment", errno);
  const std::size_t wanted = total_bytes(local_size, memory_bytes);
  if (static_cast<std::size_t>(status.st_size) != wanted) {
    return error(Code::kMismatch,
                 "the shared segment of the node has {} bytes, this rank expects {}: the ranks run "
                 "different versions or settings of libhvd",
                 status.st_size, wanted);
  }
  return map(std::move(fd), MAP_SHARED, local_size, memory_bytes);
}

SharedSegment::SharedSegment(void* address, std::size_t mapped_bytes, UniqueFd fd, int local_size,
                             std::size_t memory_bytes)
    : address_(address),
      mapped_bytes_(mapped_bytes),
      fd_(std::move(fd)),
      words_(static_cast<SleepWord*>(address), static_cast<std::size_t>(local_size)),
      memory_(static_cast<std::byte*>(address) + words_bytes(local_size), memory_bytes) {}

SharedSegment::~SharedSegment() { ::munmap(address_, mapped_bytes_); }

}  // namespace hvd
