// SPDX-License-Identifier: Apache-2.0
#include "topology/gpu_list.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace hvd {
namespace {

constexpr std::size_t kMaxEntries = 1024;
constexpr std::size_t kMaxIndexDigits = 6;
constexpr std::size_t kMaxUuid = 128;

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool is_index(std::string_view text) {
  return !text.empty() && text.size() <= kMaxIndexDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// What follows "GPU-" or "MIG-"; CUDA takes any unique beginning, MIG also "GPU-.../1/0".
bool is_uuid(std::string_view text) {
  return !text.empty() && text.size() <= kMaxUuid &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '/' ||
                  c == 'G' || c == 'P' || c == 'U';
         });
}

/// "1.0": device and tile.
bool is_tile(std::string_view text) {
  const std::size_t dot = text.find('.');
  return dot != std::string_view::npos && is_index(text.substr(0, dot)) &&
         is_index(text.substr(dot + 1));
}

Result<GpuEntry> parse_affinity_entry(std::string_view text, std::string_view list) {
  if (is_index(text)) return GpuEntry{GpuEntryKind::kIndex, std::string(text)};
  if (is_tile(text)) return GpuEntry{GpuEntryKind::kTile, std::string(text)};
  constexpr std::size_t kShown = 80;
  return error(Code::kInvalidArgument,
               "'{}' in the device list '{}' is neither a device ('1') nor a tile ('1.0')",
               text.substr(0, kShown), list.substr(0, kShown));
}

Result<GpuEntry> parse_entry(std::string_view text, std::string_view list) {
  if (is_index(text)) return GpuEntry{GpuEntryKind::kIndex, std::string(text)};
  if (text.starts_with("GPU-") && is_uuid(text.substr(4))) {
    return GpuEntry{GpuEntryKind::kGpuUuid, std::string(text)};
  }
  if (text.starts_with("MIG-") && is_uuid(text.substr(4))) {
    return GpuEntry{GpuEntryKind::kMigUuid, std::string(text)};
  }
  constexpr std::size_t kShown = 80;
  return error(Code::kInvalidArgument,
               "'{}' in the GPU list '{}' is neither an index nor GPU-UUID nor MIG-UUID",
               text.substr(0, kShown), list.substr(0, kShown));
}

std::size_t count_entries(const std::string& list) {
  if (list.empty()) return 0;
  return static_cast<std::size_t>(std::count(list.begin(), list.end(), ',')) + 1;
}

/// With --gpus-per-task Slurm gives each task its own SLURM_STEP_GPUS, shorter than the node's
/// count; a list cut by the user leaves SLURM_STEP_GPUS whole.
bool has_private_list(const Environment& environment, std::size_t entries) {
  const auto step = environment.get("SLURM_STEP_GPUS");
  const auto on_node = environment.get_int("SLURM_GPUS_ON_NODE", 0, kMaxEntries);
  if (!step || !on_node.is_ok() || !on_node.value()) return false;
  return entries > 0 && count_entries(*step) == entries &&
         static_cast<long long>(entries) < *on_node.value();
}

using EntryParser = Result<GpuEntry> (*)(std::string_view text, std::string_view list);

Result<std::vector<GpuEntry>> parse_list(std::string_view text, EntryParser parse) {
  std::vector<GpuEntry> entries;
  const std::string_view all = trim(text);
  if (all.empty() || all == "none" || all == "void" || all == "NoDevFiles") return entries;
  std::size_t start = 0;
  while (start <= all.size()) {
    const std::size_t comma = std::min(all.find(',', start), all.size());
    const std::string_view word = trim(all.substr(start, comma - start));
    start = comma + 1;
    if (word == "-1") break;  // CUDA ignores this entry and all after it.
    HVD_TRY_ASSIGN(GpuEntry entry, parse(word, all));
    for (const GpuEntry& other : entries) {
      if (other.text == entry.text) {
        return error(Code::kInvalidArgument, "the GPU list '{}' names '{}' twice", all, entry.text);
      }
    }
    if (entries.size() == kMaxEntries) {
      return error(Code::kInvalidArgument, "the GPU list has more than {} entries", kMaxEntries);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

Result<std::vector<GpuEntry>> parse_gpu_list(std::string_view text) {
  return parse_list(text, parse_entry);
}

Result<std::vector<GpuEntry>> parse_affinity_mask(std::string_view text) {
  return parse_list(text, parse_affinity_entry);
}

Result<VisibleGpus> visible_gpus(const Environment& environment, int gpus_on_node) {
  struct Source {
    std::string_view variable;
    Result<std::vector<GpuEntry>> (*parse)(std::string_view text);
  };
  // HIP counts within what ROCR leaves, so its list is the shorter one.
  constexpr std::array<Source, 4> kSources{{
      {"CUDA_VISIBLE_DEVICES", parse_gpu_list},
      {"HIP_VISIBLE_DEVICES", parse_gpu_list},
      {"ROCR_VISIBLE_DEVICES", parse_gpu_list},
      {"ZE_AFFINITY_MASK", parse_affinity_mask},
  }};
  VisibleGpus gpus;
  for (const Source& source : kSources) {
    const auto list = environment.get(source.variable);
    if (!list) continue;
    auto entries = source.parse(*list);
    if (!entries.is_ok()) return entries.status().with_context(source.variable);
    gpus.variable = source.variable;
    gpus.entries = std::move(entries).value();
    gpus.is_private = has_private_list(environment, gpus.entries.size());
    return gpus;
  }
  for (int i = 0; i < gpus_on_node; ++i) {
    gpus.entries.push_back({GpuEntryKind::kIndex, std::to_string(i)});
  }
  return gpus;
}

Result<std::optional<int>> choose_gpu(const VisibleGpus& gpus, bool shares_gpu, int local_rank,
                                      int local_size) {
  const int count = static_cast<int>(gpus.entries.size());
  if (count == 0) return std::optional<int>();
  if (gpus.is_private) return std::optional<int>(0);
  if (local_size <= count) return std::optional<int>(local_rank);
  if (shares_gpu) return std::optional<int>(local_rank % count);
  const std::string where =
      gpus.variable.empty() ? "on the node" : format_text("in {}", gpus.variable);
  return error(
      Code::kInvalidArgument,
      "{} ranks on this node, but only {} GPU{} {}: start one rank per GPU, ask for {} GPUs "
      "per node (--gpus-per-node={}), hide the GPUs (CUDA_VISIBLE_DEVICES= for a run on "
      "CPUs), or share them (HVD_SHARE_GPU=1)",
      local_size, count, count == 1 ? "" : "s", where, local_size, local_size);
}

}  // namespace hvd
