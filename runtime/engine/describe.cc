// SPDX-License-Identifier: Apache-2.0
#include "engine/describe.h"

#include "device/gpu_build.h"

namespace hvd {
namespace {

std::string_view promise(bool reproducible) {
  return reproducible ? "bitwise equal on every rank and in every run"
                      : "bitwise equal on every rank, not in every run";
}

/// The GPUs that this build would serve, where the engine and this node have any: who trains on a
/// laptop without them need not read of them.
Device gpu_of(const EngineOptions& options) {
  const bool is_any = options.gpus != nullptr && describe_gpu_driver(options.gpu_driver).is_there;
  return {is_any ? gpu_kind_of_build() : DeviceKind::kCpu, 0};
}

std::string describe_ranks_and_nodes(const Communicator& world) {
  std::string text =
      format_text("{} ranks on {} node{}; this is rank {} on host {}\n", world.size,
                  world.node_count(), world.node_count() == 1 ? "" : "s", world.rank, world.host());
  for (int node = 0; node < world.node_count(); ++node) {
    RankSet ranks(world.size);
    for (const int rank : world.nodes[static_cast<std::size_t>(node)]) ranks.add(rank);
    const int first = world.nodes[static_cast<std::size_t>(node)].front();
    text += format_text("node {}: {} on host {}\n", node, describe_ranks(ranks),
                        world.hosts[static_cast<std::size_t>(first)]);
  }
  return text;
}

std::string describe_limits(const EngineOptions& options) {
  const auto seconds = [](std::chrono::milliseconds time) {
    return static_cast<double>(time.count()) / 1000.0;
  };
  std::string text =
      format_text("lost: a host that does not answer for {:.6g} s", seconds(options.link_timeout));
  if (options.silence_timeout.count() != 0) {
    text +=
        format_text(", a process that says nothing for {:.6g} s", seconds(options.silence_timeout));
  }
  return text + "\n";
}

}  // namespace

std::string Epoch::describe_planes() const {
  const Device gpu = gpu_of(options_);
  std::string text;
  bool on_cpu = true;
  bool on_gpu = true;
  for (const auto& [id, set] : sets_.snapshot()) {
    const std::string which =
        id == 0 ? "" : format_text("process set {} (ranks {}): ", id, describe_list(set.ranks));
    if (set.plane == nullptr) {
      text += which + "without this rank\n";
      continue;
    }
    text += format_text("{}CPU allreduce moves by {}\n", which, set.plane->describe(Device{}));
    on_cpu = on_cpu && set.plane->reproducible(Device{});
    if (gpu.kind == DeviceKind::kCpu) continue;
    text += format_text("{}GPU allreduce moves by {}\n", which, set.plane->describe(gpu));
    on_gpu = on_gpu && set.plane->reproducible(gpu);
  }
  text += format_text("results are {}\n", promise(on_cpu));
  if (on_gpu != on_cpu) text += format_text("results on GPUs are {}\n", promise(on_gpu));
  return text;
}

std::string describe(Epoch& epoch) {
  const Wiring& wiring = epoch.wiring();
  std::string text = describe_ranks_and_nodes(epoch.world());
  text += format_text("found each other by: {}\n", wiring.bootstrap);
  if (!wiring.bootstrap_reason.empty()) text += format_text("  {}\n", wiring.bootstrap_reason);
  if (epoch.world().node_count() > 1) text += describe_limits(epoch.options());
  Lock lock(epoch.progress());  // preparations drop backends
  return text + epoch.describe_processes() + epoch.describe_planes();
}

}  // namespace hvd
