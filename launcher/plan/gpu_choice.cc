// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/gpu_choice.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "launcher/node/gpu_places.h"

namespace hvd {
namespace {

bool is_index(const GpuEntry& entry) { return entry.kind == GpuEntryKind::kIndex; }

int number_of(std::string_view text) {
  int number = -1;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Slurm's number of the GPU that an index means, for nodes whose PCI devices are hidden: an index
/// counts the step's GPUs, or is the number itself where one is beyond their count; -1: no Slurm.
int slurm_number(const VisibleGpus& visible, const GpuEntry& entry,
                 const Environment& environment) {
  const auto step = parse_gpu_list(environment.get("SLURM_STEP_GPUS").value_or(""));
  if (!step.is_ok() || step.value().empty()) return -1;
  const std::size_t count = step.value().size();
  const bool is_number = std::any_of(
      visible.entries.begin(), visible.entries.end(),
      [&](const GpuEntry& other) { return number_of(other.text) >= static_cast<int>(count); });
  const int index = number_of(entry.text);
  return is_number ? index : number_of(step.value()[static_cast<std::size_t>(index)].text);
}

std::string name_gpu(const VisibleGpus& visible, const GpuEntry& entry, const NodeGpu* gpu,
                     const Environment& environment) {
  switch (entry.kind) {
    case GpuEntryKind::kMigUuid:
      return entry.text;
    case GpuEntryKind::kTile:
      return gpu == nullptr ? "" : gpu->bus_id + entry.text.substr(entry.text.find('.'));
    case GpuEntryKind::kGpuUuid:
      return gpu == nullptr ? entry.text : gpu->bus_id;
    case GpuEntryKind::kIndex:
      break;
  }
  if (gpu != nullptr) return gpu->bus_id;
  const int number = slurm_number(visible, entry, environment);
  return number < 0 ? "" : format_text("slurm-gpu-{}", number);
}

/// Whether an index says which GPU of the topology is meant.
bool counts_in_bus_order(const NodeTopology& topology, const Allocation& allocation) {
  const auto gpus = static_cast<int>(topology.gpus.size());
  const Environment& environment = allocation.environment;
  if (gpus > 1 && environment.get("CUDA_DEVICE_ORDER").value_or("PCI_BUS_ID") != "PCI_BUS_ID") {
    return false;
  }
  const bool by_slurm = environment.has("SLURM_STEP_GPUS") || environment.has("SLURM_JOB_GPUS");
  return by_slurm || allocation.gpus_on_machine == 0 || allocation.gpus_on_machine == gpus;
}

}  // namespace

Result<std::vector<GpuBehind>> gpus_behind(const VisibleGpus& visible, const NodeTopology& topology,
                                           const Allocation& allocation) {
  const bool has_index = std::any_of(visible.entries.begin(), visible.entries.end(), is_index);
  std::vector<int> places(visible.entries.size(), -1);
  if (!has_index || counts_in_bus_order(topology, allocation)) {
    HVD_TRY_ASSIGN(places, locate_gpus(topology, visible, allocation.environment));
  }
  std::vector<GpuBehind> result;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const NodeGpu* gpu =
        places[i] < 0 ? nullptr : &topology.gpus[static_cast<std::size_t>(places[i])];
    result.push_back(
        {places[i], name_gpu(visible, visible.entries[i], gpu, allocation.environment)});
  }
  return result;
}

}  // namespace hvd
