// SPDX-License-Identifier: Apache-2.0
#include "transport/doorbell.h"

#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace hvd {
namespace {

void write_bell(int bell) {
  // A full counter (EAGAIN) means that the bell rings already.
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell, &one, sizeof one);
}

}  // namespace

Doorbell::Doorbell(std::span<SleepWord> words, std::vector<UniqueFd> bells, int local_rank)
    : owned_(std::move(bells)), local_rank_(local_rank) {
  HVD_CHECK(words.size() == owned_.size());
  HVD_CHECK(local_rank >= 0 && static_cast<std::size_t>(local_rank) < owned_.size());
  for (std::size_t i = 0; i < words.size(); ++i) bells_.push_back({&words[i], owned_[i].get()});
}

Doorbell Doorbell::among(std::span<const int> local_ranks) const {
  Doorbell part;
  part.local_rank_ = -1;
  for (const int rank : local_ranks) {
    if (rank == local_rank_) part.local_rank_ = static_cast<int>(part.bells_.size());
    part.bells_.push_back(bells_[static_cast<std::size_t>(rank)]);
  }
  HVD_CHECK(part.local_rank_ >= 0);
  return part;
}

void Doorbell::ring(int local_rank) const {
  const Bell& bell = bells_[static_cast<std::size_t>(local_rank)];
  if (bell.word->asleep.load() != 0) write_bell(bell.fd);
}

void Doorbell::ring_others() const {
  for (int i = 0; i < static_cast<int>(bells_.size()); ++i) {
    if (i != local_rank_) ring(i);
  }
}

void Doorbell::wake_others() const {
  for (int i = 0; i < static_cast<int>(bells_.size()); ++i) {
    if (i != local_rank_) write_bell(bells_[static_cast<std::size_t>(i)].fd);
  }
}

void Doorbell::ring_self() const { write_bell(fd()); }

void Doorbell::set_asleep(bool asleep) {
  auto& word = bells_[static_cast<std::size_t>(local_rank_)].word->asleep;
  const std::uint32_t wanted = asleep ? 1 : 0;
  // relaxed: nobody else writes it.
  if (word.load(std::memory_order_relaxed) != wanted) word.store(wanted);
}

bool Doorbell::is_asleep() const {
  return bells_[static_cast<std::size_t>(local_rank_)].word->asleep.load() != 0;
}

void Doorbell::drain() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(fd(), &count, sizeof count);
}

}  // namespace hvd
