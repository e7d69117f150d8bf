// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/gpu_places.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "topology/cpu_set.h"

namespace hvd {
namespace {

constexpr int kUnknown = -1;

int leading_number(std::string_view text) {
  int value = kUnknown;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string existing(const NodeTopology& topology) {
  std::string text;
  for (const NodeGpu& gpu : topology.gpus) {
    if (!text.empty()) text += ", ";
    text += format_text("{} ({})", gpu.index, gpu.uuid.empty() ? gpu.bus_id : gpu.uuid);
  }
  return text;
}

Status missing(const NodeTopology& topology, const VisibleGpus& visible, const GpuEntry& entry) {
  return error(Code::kInvalidArgument,
               "{}: no GPU of this node is '{}'; there are {}: correct the list, or unset it",
               visible.variable.empty() ? "GPUs" : visible.variable, entry.text,
               existing(topology));
}

/// The GPUs that an index counts: all, or the job's where it sees no others.
std::vector<int> counted_gpus(const NodeTopology& topology, const VisibleGpus& visible,
                              const Environment& environment) {
  std::vector<int> all(topology.gpus.size());
  std::iota(all.begin(), all.end(), 0);
  auto listed = environment.get("SLURM_STEP_GPUS");
  if (!listed) listed = environment.get("SLURM_JOB_GPUS");
  if (!listed) return all;
  std::vector<int> job = parse_cpu_set(*listed).value_or({});
  if (job.empty() || job.size() >= all.size() || job.back() >= static_cast<int>(all.size())) {
    return all;
  }
  // Where Slurm leaves all device files open, its list of the job's GPUs has the node's numbers:
  // then one of them is beyond the job's count, or it is the list itself.
  for (const GpuEntry& entry : visible.entries) {
    if (entry.kind != GpuEntryKind::kIndex) continue;
    if (leading_number(entry.text) >= static_cast<int>(job.size())) return all;
  }
  return job;
}

/// A beginning that is unique is enough. kUnknown: some GPU's UUIDs are not known.
Result<int> find_uuid(const NodeTopology& topology, const VisibleGpus& visible,
                      const GpuEntry& entry) {
  std::string wanted = entry.text;
  const bool is_old_mig = wanted.starts_with("MIG-GPU-");
  if (is_old_mig) wanted = wanted.substr(4, wanted.find('/') - 4);
  const bool by_mig = entry.kind == GpuEntryKind::kMigUuid && !is_old_mig;
  std::vector<int> found;
  bool all_known = true;
  for (const NodeGpu& gpu : topology.gpus) {
    const std::vector<std::string> uuids =
        by_mig ? gpu.mig_uuids : std::vector<std::string>{gpu.uuid};
    all_known = all_known && !by_mig && !gpu.uuid.empty();
    for (const std::string& uuid : uuids) {
      if (!uuid.empty() && uuid.starts_with(wanted)) found.push_back(gpu.index);
    }
  }
  if (found.size() > 1) {
    return error(Code::kInvalidArgument, "{}: '{}' is the beginning of {} UUIDs: write more of it",
                 visible.variable, entry.text, found.size());
  }
  if (found.size() == 1) return found.front();
  if (all_known) return missing(topology, visible, entry);
  return kUnknown;
}

Result<int> find_index(const NodeTopology& topology, const VisibleGpus& visible,
                       const GpuEntry& entry, const std::vector<int>& counted) {
  const int number = leading_number(entry.text);
  if (number < static_cast<int>(counted.size())) return counted[static_cast<std::size_t>(number)];
  // Without a dot Level Zero may count tiles (ZE_FLAT_DEVICE_HIERARCHY=FLAT).
  if (visible.variable == "ZE_AFFINITY_MASK" && entry.kind == GpuEntryKind::kIndex) {
    return kUnknown;
  }
  return missing(topology, visible, entry);
}

/// The GPUs that HIP's numbers count: what ROCR_VISIBLE_DEVICES leaves, in its order.
Result<std::vector<int>> behind_rocr(const NodeTopology& topology, const VisibleGpus& visible,
                                     const Environment& environment,
                                     const std::vector<int>& counted) {
  const auto list = environment.get("ROCR_VISIBLE_DEVICES");
  if (visible.variable != "HIP_VISIBLE_DEVICES" || !list) return counted;
  auto entries = parse_gpu_list(*list);
  if (!entries.is_ok()) return entries.status().with_context("ROCR_VISIBLE_DEVICES");
  Environment without = environment;
  without.unset("ROCR_VISIBLE_DEVICES");
  return locate_gpus(topology, {"ROCR_VISIBLE_DEVICES", std::move(entries).value(), false},
                     without);
}

}  // namespace

Result<std::vector<int>> locate_gpus(const NodeTopology& topology, const VisibleGpus& visible,
                                     const Environment& environment) {
  std::vector<int> places(visible.entries.size(), kUnknown);
  if (topology.gpus.empty()) return places;
  HVD_TRY_ASSIGN(
      const std::vector<int> counted,
      behind_rocr(topology, visible, environment, counted_gpus(topology, visible, environment)));
  std::vector<const GpuEntry*> owner(topology.gpus.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const GpuEntry& entry = visible.entries[i];
    const bool by_uuid =
        entry.kind == GpuEntryKind::kGpuUuid || entry.kind == GpuEntryKind::kMigUuid;
    HVD_TRY_ASSIGN(places[i], by_uuid ? find_uuid(topology, visible, entry)
                                      : find_index(topology, visible, entry, counted));
    const bool is_whole =
        entry.kind == GpuEntryKind::kIndex || entry.kind == GpuEntryKind::kGpuUuid;
    if (!is_whole || places[i] == kUnknown) continue;
    const GpuEntry*& other = owner[static_cast<std::size_t>(places[i])];
    if (other != nullptr) {
      return error(Code::kInvalidArgument, "{}: '{}' and '{}' are the same GPU {}: leave one out",
                   visible.variable, other->text, entry.text, places[i]);
    }
    other = &entry;
  }
  return places;
}

}  // namespace hvd
