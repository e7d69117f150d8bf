// SPDX-License-Identifier: Apache-2.0
#include "backends/node/reduce_stream.h"

#include <algorithm>

#include "base/copy_bytes.h"
#include "base/rounding.h"

namespace hvd {
namespace {

constexpr std::size_t kStreamLine = 64;                         // every element size divides it
constexpr std::size_t kStreamSubBlock = std::size_t{16} << 10;  // stays in the first cache, twice

}  // namespace

std::size_t ReduceStream::largest_piece(int owners) {
  return NodePlane::kSlotBytes / static_cast<std::size_t>(owners) / kStreamLine * kStreamLine;
}

ReduceStream::ReduceStream(NodePlane& plane, const Batch& batch, const Reduction& reduction,
                           int owners, std::size_t piece_bytes)
    : plane_(plane),
      reduction_(reduction),
      owners_(owners),
      input_(WireCast::of_operation(batch.operation, batch.dtype)),
      output_(WireCast::of_operation(batch.operation, batch.dtype)),
      sources_(static_cast<std::size_t>(plane.local_size())) {
  input_.reserve(batch.segments.size());
  output_.reserve(batch.segments.size());
  for (const Segment& segment : batch.segments) {
    input_.append(segment.input, segment.count);
    output_.append(static_cast<std::byte*>(segment.output), segment.count);
  }
  const auto pieces = static_cast<std::size_t>(owners);
  const std::size_t largest = piece_bytes > 0 ? piece_bytes : largest_piece(owners);
  rounds_ = divide_up(input_.size(), largest * pieces);
  if (rounds_ > 0) {
    piece_bytes_ = divide_up(divide_up(input_.size(), rounds_ * pieces), kStreamLine) * kStreamLine;
  }
}

void ReduceStream::begin() {
  base_ = plane_.next_round;
  plane_.next_round += rounds_;
}

std::size_t ReduceStream::piece_begin(std::uint64_t round, int owner) const {
  const std::size_t piece =
      round * static_cast<std::size_t>(owners_) + static_cast<std::size_t>(owner);
  return std::min(piece * piece_bytes_, input_.size());
}

std::size_t ReduceStream::piece_length(std::uint64_t round, int owner) const {
  if (owner >= owners_) return 0;
  return piece_begin(round, owner + 1) - piece_begin(round, owner);
}

std::byte* ReduceStream::result_slot(std::uint64_t round, int owner) const {
  return plane_.slot(owner == 0 ? 1 : 0, base_ + round) +
         static_cast<std::size_t>(owner) * piece_bytes_;
}

void ReduceStream::copy_pieces_in(std::uint64_t round, int first, int last) {
  if (first >= last) return;
  const std::size_t begin = piece_begin(round, first);
  input_.copy_to(plane_.slot(plane_.local_rank(), base_ + round) +
                     static_cast<std::size_t>(first) * piece_bytes_,
                 begin, piece_begin(round, last) - begin);
}

bool ReduceStream::try_copy_in() {
  if (in_ == rounds_ || !plane_.slot_is_free(base_ + in_)) return false;
  const int mine = plane_.local_rank();
  if (plane_.local_size() > 1) {
    copy_pieces_in(in_, 0, std::min(mine, owners_));
    copy_pieces_in(in_, mine + 1, owners_);
  }
  ++in_;
  plane_.publish(NodePlane::kIn, base_ + in_);
  return true;
}

bool ReduceStream::may_reduce() {
  return reduced_ < in_ && plane_.all_have_reached(NodePlane::kIn, base_ + reduced_ + 1);
}

void ReduceStream::reduce_piece(ReduceStage stage, std::byte* partial) {
  const int mine = plane_.local_rank();
  const std::size_t element = reduction_.element_bytes();
  const std::size_t begin = piece_begin(reduced_, mine);
  const std::size_t length = piece_length(reduced_, mine);
  const std::size_t offset_in_slot = static_cast<std::size_t>(mine) * piece_bytes_;
  for (std::size_t done = 0; done < length;) {
    const ByteStream::Range in = input_.read(begin + done);
    const std::size_t n = std::min({length - done, in.bytes, kStreamSubBlock});
    for (int rank = 0; rank < plane_.local_size(); ++rank) {
      const std::byte* slot = plane_.slot(rank, base_ + reduced_) + offset_in_slot + done;
      sources_[static_cast<std::size_t>(rank)] = rank == mine ? in.data : slot;
    }
    if (stage == ReduceStage::kPartial) {
      reduce_into(reduction_, stage, partial + done / element * reduction_.partial_bytes(),
                  sources_, n / element);
    } else {
      reduce_to_output(begin + done, done, n);
    }
    done += n;
  }
}

void ReduceStream::reduce_to_output(std::size_t offset, std::size_t offset_in_piece,
                                    std::size_t bytes) {
  const std::size_t count = bytes / reduction_.element_bytes();
  const int mine = plane_.local_rank();
  if (output_.is_cast()) {
    // Alone, the own slot is free to hold what is to be cast back.
    std::byte* slot = plane_.local_size() > 1 ? result_slot(reduced_, mine) : plane_.slot(mine, 0);
    reduce_into(reduction_, ReduceStage::kWhole, slot + offset_in_piece, sources_, count);
    output_.copy_from(slot + offset_in_piece, offset, bytes);
    return;
  }
  std::byte* const out = output_.at(offset).data;
  std::byte* const shared =
      plane_.local_size() > 1 ? result_slot(reduced_, mine) + offset_in_piece : nullptr;
  std::byte* const target = out != nullptr ? out : shared;  // nowhere: for the others only
  if (target == nullptr) return;
  reduce_into(reduction_, ReduceStage::kWhole, target, sources_, count);
  if (shared != nullptr && target != shared) copy_bytes(shared, target, bytes);
}

bool ReduceStream::try_reduce() {
  if (!may_reduce()) return false;
  if (is_owner()) reduce_piece(ReduceStage::kWhole, nullptr);
  given_ = ++reduced_;
  plane_.publish(NodePlane::kReduced, base_ + given_);
  return true;
}

std::byte* ReduceStream::in_place(const WireStream& stream, std::uint64_t round) const {
  const std::size_t bytes = own_bytes(round);
  if (plane_.local_size() > 1 || stream.is_cast() || bytes == 0) return nullptr;
  const ByteStream::Range range = stream.at(piece_begin(round, plane_.local_rank()));
  return range.bytes >= bytes ? range.data : nullptr;
}

bool ReduceStream::try_reduce_partial(std::byte* partial) {
  if (!may_reduce()) return false;
  if (partial != nullptr) reduce_piece(ReduceStage::kPartial, partial);
  ++reduced_;
  return true;
}

void ReduceStream::give_result(const std::byte* result, std::size_t begin, std::size_t end) {
  const int mine = plane_.local_rank();
  if (end > begin) {
    output_.copy_from(result + begin, piece_begin(given_, mine) + begin, end - begin);
    if (plane_.local_size() > 1) {
      copy_bytes(result_slot(given_, mine) + begin, result + begin, end - begin);
    }
  }
  ++given_;
  plane_.publish(NodePlane::kReduced, base_ + given_);
}

bool ReduceStream::try_copy_out() {
  // My own results count too: a round that I own is not over before they are in the output.
  if (out_ == in_ || (is_owner() && out_ == given_)) return false;
  const int mine = plane_.local_rank();
  for (int owner = 0; owner < owners_; ++owner) {
    if (owner == mine || piece_length(out_, owner) == 0) continue;
    if (!plane_.has_reached(owner, NodePlane::kReduced, base_ + out_ + 1)) return false;
  }
  for (int owner = 0; owner < owners_; ++owner) {
    if (owner == mine) continue;
    output_.copy_from(result_slot(out_, owner), piece_begin(out_, owner),
                      piece_length(out_, owner));
  }
  ++out_;
  plane_.publish(NodePlane::kOut, base_ + out_);
  return true;
}

}  // namespace hvd
