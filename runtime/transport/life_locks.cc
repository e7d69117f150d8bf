// SPDX-License-Identifier: Apache-2.0
#include "transport/life_locks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>

namespace hvd {
namespace {

struct flock byte_of(int local_rank) {
  struct flock byte {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = local_rank;
  byte.l_len = 1;
  return byte;
}

/// The lock that another process has on the byte; l_type is F_UNLCK where none has. Nothing where
/// the kernel does not say.
std::optional<struct flock> find_lock(int fd, int local_rank) {
  struct flock found = byte_of(local_rank);
  if (fd < 0 || ::fcntl(fd, F_GETLK, &found) != 0) return std::nullopt;
  return found;
}

}  // namespace

Result<LifeLocks> LifeLocks::create() {
  UniqueFd file(::memfd_create("hvd-life", MFD_CLOEXEC));
  if (!file.is_open()) return Status::system("cannot create a file for locks", errno);
  return LifeLocks(std::move(file));
}

Status LifeLocks::lock(int local_rank) const {
  struct flock byte = byte_of(local_rank);
  if (::fcntl(file_.get(), F_SETLK, &byte) == 0) return Status::ok();
  return Status::system("cannot lock a byte of a memory file (fcntl F_SETLK)", errno);
}

bool LifeLocks::has_ended(int local_rank) const {
  const auto found = find_lock(file_.get(), local_rank);
  return found && found->l_type == F_UNLCK;
}

long LifeLocks::pid_of(int local_rank) const {
  const auto found = find_lock(file_.get(), local_rank);
  return found && found->l_type != F_UNLCK && found->l_pid > 0 ? found->l_pid : 0;
}

}  // namespace hvd
