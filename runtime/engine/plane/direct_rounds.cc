// SPDX-License-Identifier: Apache-2.0
#include "engine/plane/direct_rounds.h"

#include <cstring>

#include "base/check.h"

namespace hvd {

// Per rank: its word, then its two slots.
std::size_t DirectRounds::memory_bytes(int ranks) {
  static_assert(sizeof(Slot) == kSlotBytes && offsetof(Slot, bytes) == kHeaderBytes);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  return static_cast<std::size_t>(ranks) * (sizeof(Word) + 2 * sizeof(Slot));
}

DirectRounds::DirectRounds(std::span<std::byte> memory, int me, int ranks, const Doorbell* doorbell)
    : memory_(memory.data()), me_(me), ranks_(ranks), doorbell_(doorbell) {
  HVD_CHECK(memory.size() >= memory_bytes(ranks));
}

// The memory is born zeroed, which is where every word begins.
DirectRounds::Slot& DirectRounds::slot(int rank, std::uint64_t round) const {
  const std::size_t index = 2 * static_cast<std::size_t>(rank) + round % 2;
  std::byte* const slots = memory_ + static_cast<std::size_t>(ranks_) * sizeof(Word);
  return reinterpret_cast<Slot*>(slots)[index];
}

DirectRounds::Word& DirectRounds::word(int rank) const {
  return reinterpret_cast<Word*>(memory_)[rank];
}

bool DirectRounds::has_written(const Slot& place, std::uint64_t round) {
  // Pairs with the store in write(): the offer and its bytes are there. seq_cst: it may be the last
  // look before a sleep.
  return place.round.load() == round;
}

bool DirectRounds::is_wanted_back(int rank) const { return word(rank).wanted_back.load() >= next_; }

bool DirectRounds::has_stopped(int rank) const {
  return word(rank).wanted_back.load() == kAllRounds;
}

bool DirectRounds::is_my_turn() {
  if (has_offer_ || has_stopped_) return false;
  while (next_ > 1 && written_by_ < ranks_) {
    if (!has_written(slot(written_by_, next_ - 1), next_ - 1)) return false;
    ++written_by_;
  }
  return true;
}

std::optional<DirectRounds::Offer> DirectRounds::offer_of(int rank) const {
  const Slot& theirs = slot(rank, next_);
  if (!has_written(theirs, next_)) return std::nullopt;
  return theirs.offer;
}

bool DirectRounds::may_offer() {
  if (!is_my_turn()) return false;
  std::optional<std::uint32_t> key;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::optional<Offer> theirs = offer_of(rank);
    const bool is_lost =
        (theirs && (theirs->key == kDeclined || theirs->key != key.value_or(theirs->key))) ||
        is_wanted_back(rank);
    if (is_lost) {
      decline();
      return false;
    }
    if (theirs) key = theirs->key;
  }
  return true;
}

std::byte* DirectRounds::my_place() { return slot(me_, next_).bytes.data(); }

void DirectRounds::offer(const Offer& mine) {
  has_offer_ = true;
  write(mine);
}

void DirectRounds::decline() { write({.key = kDeclined}); }

void DirectRounds::write(const Offer& mine) {
  publish(slot(me_, next_), next_, mine);
  ++next_;
  written_by_ = 0;
}

void DirectRounds::publish(Slot& place, std::uint64_t round, const Offer& offer) {
  place.offer = offer;
  // seq_cst: publishes the offer and its bytes, and comes before the look who sleeps.
  place.round.store(round);
  if (doorbell_ != nullptr) doorbell_->ring_others();
}

std::optional<DirectRounds::Written> DirectRounds::written(int rank, std::uint64_t round) const {
  const Slot& theirs = slot(rank, round);
  if (!has_written(theirs, round)) return std::nullopt;
  return Written{theirs.offer, std::span(theirs.bytes).first(theirs.offer.bytes)};
}

std::uint64_t DirectRounds::wanted_back(int rank) const { return word(rank).wanted_back.load(); }

bool DirectRounds::take_written(int rank, std::uint64_t round, const Written& theirs) {
  if (rank >= ranks_ || theirs.bytes.size() > kRoom) return false;
  Slot& place = slot(rank, round);
  // Only its node's leader writes here, so it is as this process left it.
  if (round == 0 || place.round.load() != (round > 2 ? round - 2 : 0)) return false;
  if (!theirs.bytes.empty()) {
    std::memcpy(place.bytes.data(), theirs.bytes.data(), theirs.bytes.size());
  }
  Offer offer = theirs.offer;
  offer.bytes = static_cast<std::uint32_t>(theirs.bytes.size());
  publish(place, round, offer);
  return true;
}

bool DirectRounds::take_wanted_back(int rank, std::uint64_t round) {
  if (rank >= ranks_) return false;
  word(rank).wanted_back.store(round);
  if (doorbell_ != nullptr) doorbell_->wake_others();
  return true;
}

DirectRounds::Verdict DirectRounds::judge() const {
  const std::uint64_t round = next_ - 1;
  const std::uint32_t mine = slot(me_, round).offer.key;
  bool is_whole = true;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Slot& theirs = slot(rank, round);
    // Nobody is further on before I have left this round.
    if (!has_written(theirs, round)) {
      // Who has stopped wrote before that, or never will: hence the second look.
      if (has_stopped(rank) && !has_written(theirs, round)) return Verdict::kVoid;
      is_whole = false;
    } else if (theirs.offer.key != mine) {
      return Verdict::kVoid;
    }
  }
  return is_whole ? Verdict::kAgreed : Verdict::kOpen;
}

const std::byte* DirectRounds::place_of(int rank) const {
  return slot(rank, next_ - 1).bytes.data();
}

void DirectRounds::want_back() {
  if (!has_offer_) return;
  // seq_cst: before the others are woken. A rank that nobody needs does not ask to be.
  word(me_).wanted_back.store(next_ - 1);
  if (doorbell_ != nullptr) doorbell_->wake_others();
}

void DirectRounds::stop() {
  has_stopped_ = true;
  word(me_).wanted_back.store(kAllRounds);
  if (doorbell_ != nullptr) doorbell_->wake_others();
}

}  // namespace hvd
