// SPDX-License-Identifier: Apache-2.0
#include "backends/shm/scatter_reduce_task.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "backends/node/byte_stream.h"
#include "backends/node/exchange_rounds.h"

namespace hvd {
namespace {

constexpr std::size_t kGrain = 16;                        // every element size divides it
constexpr std::size_t kSubBlock = std::size_t{16} << 10;  // stays in the first cache, twice

class ScatterReduceTask : public Task {
 public:
  ScatterReduceTask(NodePlane& plane, Batch batch, const Reduction& reduction)
      : plane_(plane),
        batch_(std::move(batch)),
        reduction_(reduction),
        element_(size_of(batch_.dtype)),
        ticket_(plane.take_ticket()),
        ranks_(static_cast<std::size_t>(plane.local_size())),
        inputs_(ranks_.size()),
        rounds_({}, 0, kGrain),
        sources_(ranks_.size()) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }

  ~ScatterReduceTask() override {
    if (!finished_) plane_.abandon();
  }

  Progress advance() override {
    if (!plane_.is_at_head(ticket_)) return Progress::kBlocked;
    if (!begun_ && !begin()) return Progress::kFailed;
    if (!try_reduce() && !try_copy_in()) return Progress::kBlocked;
    if (out_ < rounds_.count()) return Progress::kMoved;
    finished_ = true;
    plane_.finish(ticket_);
    return Progress::kDone;
  }
  const Status& status() const override { return status_; }

 private:
  std::size_t me() const { return static_cast<std::size_t>(plane_.local_rank()); }

  bool begin() {
    begun_ = true;
    const std::size_t size = ranks_.size();
    for (std::size_t i = 0; i < batch_.segments.size(); ++i) {
      const Segment& segment = batch_.segments[i];
      inputs_[i % size].append(segment.input, segment.count * element_);
      if (i % size == me()) {
        output_.append(static_cast<std::byte*>(segment.output), segment.count * element_);
      }
    }
    std::vector<std::size_t> bytes(size * size);
    // My share meets slots of equal cut, so it is cut although nobody sends it to itself.
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = inputs_[i % size].size();
    rounds_ = ExchangeRounds(std::move(bytes), size, kGrain);
    for (const int source : ranks_) {
      if (rounds_.share_slot(std::array<int, 1>{source}, ranks_)) continue;
      status_ = error(Code::kUnsupported, "reducescatter over {} ranks of one node", size);
      return false;
    }
    base_ = plane_.next_round;
    plane_.next_round += rounds_.count();
    return true;
  }

  bool try_copy_in() {
    if (in_ == rounds_.count() || !plane_.slot_is_free(base_ + in_)) return false;
    std::byte* place = plane_.slot(plane_.local_rank(), base_ + in_);
    for (const int owner : ranks_) {
      const auto piece = rounds_.at(in_, plane_.local_rank(), owner);
      inputs_[static_cast<std::size_t>(owner)].copy_to(place, piece.offset, piece.bytes);
      place += piece.bytes;
    }
    ++in_;
    plane_.publish(NodePlane::kIn, base_ + in_);
    return true;
  }

  bool try_reduce() {
    if (out_ == in_ || !plane_.all_have_reached(NodePlane::kIn, base_ + out_ + 1)) return false;
    const int mine = plane_.local_rank();
    const auto before = std::span(ranks_).first(me());
    for (const int source : ranks_) {
      sources_[static_cast<std::size_t>(source)] =
          plane_.slot(source, base_ + out_) + rounds_.bytes_to(out_, source, before);
    }
    reduce_piece(rounds_.at(out_, mine == 0 ? 1 : 0, mine));
    ++out_;
    plane_.publish(NodePlane::kOut, base_ + out_);
    return true;
  }

  void reduce_piece(const ExchangeRounds::Piece& piece) {
    std::vector<const void*> sources(sources_.size());
    for (std::size_t done = 0; done < piece.bytes;) {
      const ByteStream::Range in = inputs_[me()].at(piece.offset + done);
      const ByteStream::Range out = output_.at(piece.offset + done);
      const std::size_t n = std::min({piece.bytes - done, in.bytes, kSubBlock});
      for (std::size_t rank = 0; rank < sources.size(); ++rank) {
        sources[rank] = rank == me() ? in.data : sources_[rank] + done;
      }
      reduce_into(reduction_, ReduceStage::kWhole, out.data, sources, n / element_);
      done += n;
    }
  }

  NodePlane& plane_;
  Batch batch_;
  Reduction reduction_;
  std::size_t element_;
  std::uint64_t ticket_;
  std::vector<int> ranks_;
  std::vector<ByteStream> inputs_;  // by owner of the share
  ByteStream output_;               // my share
  ExchangeRounds rounds_;
  std::vector<const std::byte*> sources_;  // by rank: its piece of my share in this round
  std::uint64_t base_ = 0;
  std::uint64_t in_ = 0;
  std::uint64_t out_ = 0;
  bool begun_ = false;
  bool finished_ = false;
  Status status_;
};

}  // namespace

std::unique_ptr<Task> make_scatter_reduce_task(NodePlane& plane, Batch batch,
                                               const Reduction& reduction) {
  return std::make_unique<ScatterReduceTask>(plane, std::move(batch), reduction);
}

}  // namespace hvd
