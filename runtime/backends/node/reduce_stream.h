// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/node/node_plane.h"
#include "backends/node/wire_stream.h"
#include "collective/batch.h"
#include "collective/reduce.h"

namespace hvd {

/// Streams the tensors of a batch through the slots of a node and reduces them on the way.
///
/// The batch is one flat stream, cut into rounds of `owners` pieces. In each round every rank
/// copies the pieces that it does not own into its slot; the owner of a piece reduces its private
/// bytes with the slots of the others, in rank order; the result goes to its own output and *back
/// into a sender's slot*, from which the others copy it out: no line crosses the node more often
/// than it must. Ranks from `owners` on own nothing. Where the elements travel as a half type, all
/// bytes and lengths here are those of the half type; each rank casts what it copies, the owner its
/// own part too, so that the result does not depend on who owns what.
/// Engine thread only.
class ReduceStream {
 public:
  /// `piece_bytes`: of every piece, where the stream is whole rounds of them; 0: as few rounds as
  /// can be.
  ReduceStream(NodePlane& plane, const Batch& batch, const Reduction& reduction, int owners,
               std::size_t piece_bytes = 0);

  /// The largest piece that a slot holds for each of `owners`.
  static std::size_t largest_piece(int owners);

  std::uint64_t rounds() const { return rounds_; }
  std::size_t piece_bytes() const { return piece_bytes_; }
  /// Bytes of the piece that this rank owns in `round`; 0 at the end of the stream.
  std::size_t own_bytes(std::uint64_t round) const {
    return piece_length(round, plane_.local_rank());
  }
  bool is_owner() const { return plane_.local_rank() < owners_; }

  /// Takes the rounds of the plane; when the task has come to the head.
  void begin();

  /// Each does its stage for one round, if it can now.
  bool try_copy_in();
  bool try_copy_out();
  /// Reduces my piece with the others' and publishes the result.
  bool try_reduce();
  /// On a node of one rank: where the whole piece of the round lies in one tensor as it travels.
  /// Null: nowhere.
  std::byte* input_in_place(std::uint64_t round) const { return in_place(input_, round); }
  /// Likewise where its result belongs.
  std::byte* output_in_place(std::uint64_t round) const { return in_place(output_, round); }
  /// Reduces my piece within the node only; `partial` receives partial results. Null: the caller
  /// takes those of one rank from where they are.
  bool try_reduce_partial(std::byte* partial);
  /// After try_reduce_partial: takes the result of the oldest round that has none yet. Of the
  /// piece only the bytes [begin, end) are known; the others are due nowhere in this node, or are
  /// where they belong.
  void give_result(const std::byte* result, std::size_t begin, std::size_t end);

  /// Rounds whose node-wide reduction is done, and whose result is known.
  std::uint64_t reduced() const { return reduced_; }
  bool is_done() const { return out_ == rounds_; }

 private:
  std::size_t piece_begin(std::uint64_t round, int owner) const;
  std::size_t piece_length(std::uint64_t round, int owner) const;
  std::byte* in_place(const WireStream& stream, std::uint64_t round) const;
  bool may_reduce();
  void reduce_piece(ReduceStage stage, std::byte* partial);
  void reduce_to_output(std::size_t offset, std::size_t offset_in_piece, std::size_t bytes);
  /// The slot that carries the result of `owner`: that of the lowest other rank.
  std::byte* result_slot(std::uint64_t round, int owner) const;
  void copy_pieces_in(std::uint64_t round, int first, int last);

  NodePlane& plane_;
  Reduction reduction_;
  int owners_;
  WireStream input_;
  WireStream output_;
  std::size_t piece_bytes_ = 0;
  std::uint64_t rounds_ = 0;
  std::uint64_t base_ = 0;     // the plane's number of my round 0
  std::uint64_t in_ = 0;       // rounds whose stage is done
  std::uint64_t reduced_ = 0;  // ... in this node
  std::uint64_t given_ = 0;    // ... and their results published
  std::uint64_t out_ = 0;
  std::vector<const void*> sources_;
};

}  // namespace hvd
