// SPDX-License-Identifier: Apache-2.0
// What an engine says of itself, for people.
#include "base/environment.h"
#include "device/gpu_build.h"
#include "engine/engine_impl.h"

namespace hvd {
namespace {

std::string_view promise(bool reproducible) {
  return reproducible ? "bitwise equal on every rank and in every run"
                      : "bitwise equal on every rank, not in every run";
}

/// The GPUs that this build would serve, where the engine and this node have any: who trains on a
/// laptop without them need not read of them.
Device gpu_of(const EngineOptions& options) {
  const bool is_any =
      options.gpus != nullptr && describe_gpu_driver(Environment::of_process()).is_there;
  return {is_any ? gpu_kind_of_build() : DeviceKind::kCpu, 0};
}

}  // namespace

std::string Engine::Impl::describe() const {
  std::string text = format_text("{} ranks on {} node{}; this is rank {} on host {}\n", world_.size,
                                 world_.node_count(), world_.node_count() == 1 ? "" : "s",
                                 world_.rank, world_.host());
  for (int node = 0; node < world_.node_count(); ++node) {
    RankSet ranks(world_.size);
    for (const int rank : world_.nodes[static_cast<std::size_t>(node)]) ranks.add(rank);
    const int first = world_.nodes[static_cast<std::size_t>(node)].front();
    text += format_text("node {}: {} on host {}\n", node, describe_ranks(ranks),
                        world_.hosts[static_cast<std::size_t>(first)]);
  }
  text += format_text("found each other by: {}\n", wiring_.bootstrap);
  if (!wiring_.bootstrap_reason.empty()) text += format_text("  {}\n", wiring_.bootstrap_reason);
  const auto seconds = [](std::chrono::milliseconds time) {
    return static_cast<double>(time.count()) / 1000.0;
  };
  if (world_.node_count() > 1) {
    text += format_text("lost: a host that does not answer for {:.6g} s",
                        seconds(options_.link_timeout));
    if (options_.silence_timeout.count() != 0) {
      text += format_text(", a process that says nothing for {:.6g} s",
                          seconds(options_.silence_timeout));
    }
    text += "\n";
  }
  return text + describe_watch() + describe_sets();
}

std::string Engine::Impl::describe_watch() const {
  const NodeGroup& node = wiring_.node;
  if (world_.local_size() == 1 || !node.life_locks.is_open()) return {};
  const std::vector<int>& local = world_.nodes[static_cast<std::size_t>(world_.node)];
  std::vector<int> by_lock;
  for (std::size_t i = 0; i < local.size(); ++i) {
    if (local[i] != wiring_.rank && !node.pid_fds[i].is_open()) by_lock.push_back(local[i]);
  }
  if (by_lock.empty()) return "lost: a process of this node that ends, seen at once by its pidfd\n";
  return format_text(
      "lost: a process of this node that ends, seen within {:.6g} s by its lock: ranks {} have no "
      "pidfd (Linux before 5.3, or pidfd_open is forbidden)\n",
      std::chrono::duration<double>(kTick).count(), describe_list(by_lock));
}

std::string Engine::Impl::describe_sets() const {
  auto& self = const_cast<Impl&>(*this);  // the locks, and nothing else, change
  Lock progress(self.progress_);          // preparations drop backends
  Lock lock(sets_mutex_);
  const Device gpu = gpu_of(options_);
  std::string text;
  bool on_cpu = true;
  bool on_gpu = true;
  for (const auto& [id, set] : sets_) {
    const std::string which =
        id == 0 ? "" : format_text("process set {} (ranks {}): ", id, describe_list(set.ranks));
    if (set.plane == nullptr) {
      text += which + "without this rank\n";
      continue;
    }
    const Reducer& reduction = *set.plane->reduction;
    text += format_text("{}CPU allreduce moves by {}\n", which,
                        reduction.describe(Allreduce{}, DataType::kFloat32, Device{}));
    on_cpu = on_cpu && reduction.reproducible(Device{});
    if (gpu.kind == DeviceKind::kCpu) continue;
    text += format_text("{}GPU allreduce moves by {}\n", which,
                        reduction.describe(Allreduce{}, DataType::kFloat32, gpu));
    on_gpu = on_gpu && reduction.reproducible(gpu);
  }
  text += format_text("results are {}\n", promise(on_cpu));
  if (on_gpu != on_cpu) text += format_text("results on GPUs are {}\n", promise(on_gpu));
  return text;
}

}  // namespace hvd
