// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "collective/batch.h"
#include "device/gpu.h"

namespace hvd {

/// What the launches of a batch depend on. Where it is equal, so are they.
struct NcclGraphShape {
  struct Tensor {
    const void* input = nullptr;
    const void* output = nullptr;
    std::size_t count = 0;
    bool operator==(const Tensor&) const = default;
  };
  Operation operation;
  DataType dtype = DataType::kFloat32;
  bool is_neutral = false;
  const void* bucket = nullptr;
  const void* spare = nullptr;
  std::vector<Tensor> tensors = {};
  bool operator==(const NcclGraphShape&) const = default;
};

/// Before NCCL's calls, or after them.
enum class NcclHalf : std::uint8_t { kPack, kUnpack };

/// What is known of one bucket of the frozen schedule.
struct FrozenGraphs {
  NcclGraphShape shape;
  std::array<void*, 2> halves{};  ///< [NcclHalf]; null: not captured.
  bool is_given_up = false;       ///< The ordinary way from here on.
  int losses = 0;                 ///< Times that captured halves did not fit any more.
};

/// Graphs of the launches that pack and unpack frozen buckets, of one stream. The second time that
/// a bucket comes with the same addresses its launches are captured, and from then on replayed.
/// What does not fit, or fails, goes the ordinary way. NCCL's own calls are never captured: that
/// must be uniform over ranks, and addresses are not. Engine thread only.
class NcclGraphs {
 public:
  struct Counts {
    std::uint64_t captures = 0;   ///< Halves that became a graph.
    std::uint64_t replays = 0;    ///< Halves that ran from a graph of an earlier step.
    std::uint64_t fallbacks = 0;  ///< Graphs that did not fit any more, or that failed.
  };
  /// Beyond that many buckets of a schedule the ordinary way is taken.
  static constexpr std::size_t kMostBuckets = 256;
  /// A bucket whose addresses change more often is given up.
  static constexpr int kMostLosses = 4;

  NcclGraphs(Gpu& gpu, StreamHandle stream) : gpu_(gpu), stream_(stream) {}
  NcclGraphs(const NcclGraphs&) = delete;
  NcclGraphs& operator=(const NcclGraphs&) = delete;
  /// The stream has done all.
  ~NcclGraphs();

  /// The bucket's turn in the stream. Null: the ordinary way. Valid until the next call.
  FrozenGraphs* find(const FrozenBucket& bucket, NcclGraphShape shape);
  /// Puts a half into the stream: `enqueue` does it the ordinary way, and does nothing else.
  Status run(FrozenGraphs& graphs, NcclHalf half, const std::function<Status()>& enqueue);
  const Counts& counts() const { return counts_; }

 private:
  using Key = std::pair<std::uint32_t, DataType>;
  struct Retired {
    void* graph;
    GpuEventPtr last_use;
  };
  Status capture(void*& graph, const std::function<Status()>& enqueue);
  void give_up(FrozenGraphs& graphs, const Status& why);
  void drop(FrozenGraphs& graphs);
  void drop_all();
  void destroy_retired();
  void report() const;

  Gpu& gpu_;
  StreamHandle stream_;
  std::uint64_t schedule_ = 0;
  std::map<Key, FrozenGraphs> buckets_;
  std::vector<Retired> retired_;
  Counts counts_;
};

}  // namespace hvd
