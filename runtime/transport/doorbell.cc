// SPDX-License-Identifier: Apache-2.0
#include "transport/doorbell.h"

#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace hvd {
namespace {

void write_bell(const UniqueFd& bell) {
  // A full counter (EAGAIN) means that the bell rings already.
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell.get(), &one, sizeof one);
}

}  // namespace

Doorbell::Doorbell(std::span<SleepWord> words, std::vector<UniqueFd> bells, int local_rank)
    : words_(words), bells_(std::move(bells)), local_rank_(local_rank) {
  HVD_CHECK(words_.size() == bells_.size());
  HVD_CHECK(local_rank >= 0 && static_cast<std::size_t>(local_rank) < bells_.size());
}

void Doorbell::ring(int local_rank) const {
  const auto index = static_cast<std::size_t>(local_rank);
  if (words_[index].asleep.load() != 0) write_bell(bells_[index]);
}

void Doorbell::ring_others() const {
  for (int i = 0; i < static_cast<int>(bells_.size()); ++i) {
    if (i != local_rank_) ring(i);
  }
}

void Doorbell::ring_self() const { write_bell(bells_[static_cast<std::size_t>(local_rank_)]); }

void Doorbell::set_asleep(bool asleep) {
  words_[static_cast<std::size_t>(local_rank_)].asleep.store(asleep ? 1 : 0);
}

bool Doorbell::is_asleep() const {
  return words_[static_cast<std::size_t>(local_rank_)].asleep.load() != 0;
}

void Doorbell::drain() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(fd(), &count, sizeof count);
}

}  // namespace hvd
