// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_graphs.h"

#include "base/log.h"

namespace hvd {

NcclGraphs::~NcclGraphs() {
  report();
  for (const auto& [key, graphs] : buckets_) {
    for (void* const graph : graphs.halves) gpu_.destroy_graph(graph);
  }
  for (const Retired& retired : retired_) gpu_.destroy_graph(retired.graph);
}

FrozenGraphs* NcclGraphs::find(const FrozenBucket& bucket, NcclGraphShape shape) {
  destroy_retired();
  if (bucket.schedule != schedule_) drop_all();
  schedule_ = bucket.schedule;
  const Key key{bucket.number, shape.dtype};
  const auto found = buckets_.find(key);
  if (found == buckets_.end()) {
    if (buckets_.size() < kMostBuckets) buckets_[key].shape = std::move(shape);
    return nullptr;
  }
  FrozenGraphs& graphs = found->second;
  if (graphs.is_given_up) return nullptr;
  if (graphs.shape == shape) return &graphs;
  if (graphs.halves[0] != nullptr || graphs.halves[1] != nullptr) {
    ++counts_.fallbacks;
    graphs.is_given_up = ++graphs.losses > kMostLosses;
  }
  drop(graphs);
  graphs.shape = std::move(shape);
  return nullptr;
}

Status NcclGraphs::run(FrozenGraphs& graphs, NcclHalf half,
                       const std::function<Status()>& enqueue) {
  if (graphs.is_given_up) return enqueue();
  void*& graph = graphs.halves[static_cast<std::size_t>(half)];
  const bool is_new = graph == nullptr;
  Status status = is_new ? capture(graph, enqueue) : Status::ok();
  if (status.is_ok()) status = gpu_.launch_graph(graph, stream_);
  if (!status.is_ok()) {
    give_up(graphs, status);
    return enqueue();
  }
  ++(is_new ? counts_.captures : counts_.replays);
  return status;
}

Status NcclGraphs::capture(void*& graph, const std::function<Status()>& enqueue) {
  HVD_TRY(gpu_.begin_capture(stream_));
  Status enqueued = enqueue();
  Result<void*> ended = gpu_.end_capture(stream_);
  // The stream is freed in any case: what goes the ordinary way has to run.
  if (!ended.is_ok() && !gpu_.check_stream(stream_).is_ok()) ended = gpu_.end_capture(stream_);
  HVD_TRY(ended.status());
  graph = ended.value();  // also of a half that broke off: whoever gives up drops it
  return enqueued;
}

void NcclGraphs::give_up(FrozenGraphs& graphs, const Status& why) {
  ++counts_.fallbacks;
  graphs.is_given_up = true;
  drop(graphs);
  log(LogLevel::kInfo, "nccl", "a bucket is packed without a graph from here on: {}",
      why.message());
}

/// Behind what is in the stream, which may still run them.
void NcclGraphs::drop(FrozenGraphs& graphs) {
  for (void*& graph : graphs.halves) {
    if (graph == nullptr) continue;
    auto last_use = gpu_.record(stream_);
    // Without a point to wait for it is kept until the stream ends.
    retired_.push_back({graph, last_use.is_ok() ? std::move(last_use).value() : nullptr});
    graph = nullptr;
  }
}

void NcclGraphs::drop_all() {
  if (schedule_ != 0) report();
  for (auto& [key, graphs] : buckets_) drop(graphs);
  buckets_.clear();
}

void NcclGraphs::destroy_retired() {
  std::erase_if(retired_, [&](const Retired& retired) {
    if (retired.last_use == nullptr) return false;
    const auto used = gpu_.has_happened(*retired.last_use);
    if (!used.is_ok() || !used.value()) return false;
    gpu_.destroy_graph(retired.graph);
    return true;
  });
}

void NcclGraphs::report() const {
  log(LogLevel::kInfo, "nccl", "graphs of frozen buckets: {} captured, {} replayed, {} fell back",
      counts_.captures, counts_.replays, counts_.fallbacks);
}

}  // namespace hvd
