// SPDX-License-Identifier: Apache-2.0
#include "backends/node/exchange_rounds.h"

#include <algorithm>
#include <utility>

namespace hvd {
namespace {

std::size_t rounds_of(std::size_t a, std::size_t b) { return a / b + (a % b == 0 ? 0 : 1); }

}  // namespace

ExchangeRounds::ExchangeRounds(std::vector<std::size_t> bytes, std::size_t size, std::size_t grain,
                               std::size_t most)
    : bytes_(std::move(bytes)), size_(size), grain_(grain), most_(most) {}

bool ExchangeRounds::share_slot(std::span<const int> sources, std::span<const int> destinations) {
  std::size_t sum = 0;
  std::size_t pairs = 0;
  for (const int source : sources) {
    for (const int destination : destinations) {
      const std::size_t bytes = total(source, destination);
      sum += bytes;
      pairs += bytes > 0 ? 1 : 0;
    }
  }
  // Rounding up to the alignment costs at most one alignment for each pair.
  if (pairs * align_ > most_ / 4) align_ = grain_;
  if (pairs * align_ > most_ / 2) return false;
  rounds_ = std::max<std::uint64_t>(rounds_, rounds_of(sum, most_ - pairs * align_));
  return true;
}

ExchangeRounds::Piece ExchangeRounds::at(std::uint64_t round, int source, int destination) const {
  const std::size_t bytes = total(source, destination);
  const std::size_t piece = rounds_of(rounds_of(bytes, rounds_), align_) * align_;
  const std::size_t begin = std::min(round * piece, bytes);
  return {begin, std::min(piece, bytes - begin)};
}

std::size_t ExchangeRounds::bytes_to(std::uint64_t round, int source,
                                     std::span<const int> destinations) const {
  std::size_t sum = 0;
  for (const int destination : destinations) sum += at(round, source, destination).bytes;
  return sum;
}

}  // namespace hvd
