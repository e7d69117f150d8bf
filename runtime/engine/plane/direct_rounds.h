// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transport/doorbell.h"

namespace hvd {

/// Rounds in which the ranks of a process set on one node bring a small request with its bytes,
/// instead of announcing it first: in a loop all bring the same, and nothing has to be decided.
///
/// A rank writes into its slot of the next round what it offers (the key of the name) and the
/// bytes, or that it declines, and writes into the round after that once every rank has written.
/// What is written stays until then, so all ranks judge a round alike: it is *agreed* where all
/// offer the same key, else *void*, and what was offered is announced. A rank never waits for its
/// own later call: it declines a round in which another one offers what it has announced itself.
/// Two slots per rank suffice: who writes round n has seen all others in n - 1, so they have left
/// the one before that.
///
/// Ranks on several nodes have such memory on each of them, with slots for all. What a rank writes
/// is carried to the other nodes as it stands, each rank's writes in their order (see DirectRelay):
/// what makes a rank write on has reached its own node, so a slot that is written again there has
/// been left by all, wherever they are.
///
/// Pure except for the shared memory. One thread at a time.
class DirectRounds {
 public:
  static constexpr std::size_t kSlotBytes = (std::size_t{16} << 10) + 128;
  static constexpr std::size_t kHeaderBytes = 32;
  /// Over several nodes, each of which gets what every rank has written.
  static constexpr int kMostNodes = 8;
  static constexpr int kMostRanksOverNodes = 64;
  /// Bytes that one rank can bring.
  static constexpr std::size_t kRoom = kSlotBytes - kHeaderBytes;

  /// What a rank offers. Both numbers count entries of the log, and are compared as they wrap.
  struct Offer {
    std::uint32_t key = 0;       ///< Of the name and its description; never kDeclined.
    std::uint32_t position = 0;  ///< How far the rank has followed the log.
    std::uint32_t bytes = 0;     ///< That it brings.
  };
  static constexpr std::uint32_t kDeclined = ~std::uint32_t{0};

  enum class Verdict {
    kOpen,    ///< Not known yet.
    kAgreed,  ///< All have offered the same: their bytes are there.
    kVoid,    ///< Some rank has not.
  };

  static std::size_t memory_bytes(int ranks);
  /// `memory` as long as memory_bytes() says, zeroed. `me` counts the ranks of the set. `doorbell`
  /// is that of the set, and may be null where nobody sleeps.
  DirectRounds(std::span<std::byte> memory, int me, int ranks, const Doorbell* doorbell);

  /// True where this rank may offer in the next round. Declines it where that is lost already.
  bool may_offer();
  /// Where my bytes of the next round belong: kRoom, aligned for vectors.
  std::byte* my_place();
  void offer(const Offer& mine);

  /// What became of my offer.
  Verdict judge() const;
  /// The bytes of a rank in the agreed round.
  const std::byte* place_of(int rank) const;
  /// The agreed round is over: its bytes have been read; or the offer is taken back.
  void end_offer() { has_offer_ = false; }

  /// Declines the next round where another rank offers what `is_announced` here (asked for its
  /// Offer), or wants its offer back, or the round is lost in any case. True where it has.
  template <typename IsAnnounced>
  bool answer(IsAnnounced&& is_announced) {
    if (!is_my_turn()) return false;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == me_) continue;
      const std::optional<Offer> theirs = offer_of(rank);
      const bool conflicts =
          theirs && (theirs->key == kDeclined || is_announced(static_cast<const Offer&>(*theirs)));
      if (!conflicts && !is_wanted_back(rank)) continue;
      decline();
      return true;
    }
    return false;
  }
  /// Asks the others to decline, so that my offer is decided.
  void want_back();
  /// This rank writes no more: no round is agreed from here on.
  void stop();

  /// What a rank has written into a round.
  struct Written {
    Offer offer;
    std::span<const std::byte> bytes;
  };
  /// For the other nodes: what a rank of this one has written into a round; nothing: not yet.
  std::optional<Written> written(int rank, std::uint64_t round) const;
  /// Likewise the last round that it wants decided without it.
  std::uint64_t wanted_back(int rank) const;
  /// What a rank of another node has written. False: no rank writes such.
  bool take_written(int rank, std::uint64_t round, const Written& theirs);
  bool take_wanted_back(int rank, std::uint64_t round);

 private:
  struct Slot {
    alignas(64) std::atomic<std::uint64_t> round;  ///< Written last.
    Offer offer;
    alignas(kHeaderBytes) std::array<std::byte, kRoom> bytes;
  };
  struct alignas(64) Word {
    /// The last round that the rank wants decided without it.
    std::atomic<std::uint64_t> wanted_back;
  };
  static constexpr std::uint64_t kAllRounds = ~std::uint64_t{0};

  Slot& slot(int rank, std::uint64_t round) const;
  Word& word(int rank) const;
  static bool has_written(const Slot& place, std::uint64_t round);
  /// False while the round before is not written by all.
  bool is_my_turn();
  /// What a rank has written into the next round; nothing: not yet.
  std::optional<Offer> offer_of(int rank) const;
  bool is_wanted_back(int rank) const;
  bool has_stopped(int rank) const;
  void decline();
  void write(const Offer& mine);
  void publish(Slot& place, std::uint64_t round, const Offer& offer);

  std::byte* memory_;
  int me_;
  int ranks_;
  const Doorbell* doorbell_;
  std::uint64_t next_ = 1;  ///< The round that I write next.
  int written_by_ = 0;      ///< Ranks below this one have written the round before.
  bool has_offer_ = false;
  bool has_stopped_ = false;
};

}  // namespace hvd
