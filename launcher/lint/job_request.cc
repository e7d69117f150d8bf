// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/job_request.h"

#include <algorithm>
#include <charconv>

#include "launcher/site/time_limit.h"

#include "base/rounding.h"

namespace hvd {
namespace {

/// The number at the beginning of `text`, with nothing after it except a range or a "k".
std::optional<int> count_of(std::string_view text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || number < 0 || number > 1'000'000) return std::nullopt;
  if (parsed.ptr != end && *parsed.ptr != '-' && *parsed.ptr != ',') return std::nullopt;
  return number;
}

std::optional<int> requested_number(const SbatchFile& file, std::string_view option) {
  const Directive* directive = find_directive(file, option);
  if (directive == nullptr || !directive->value) return std::nullopt;
  return count_of(*directive->value);
}

std::string text_of(const SbatchFile& file, std::string_view option) {
  const Directive* directive = find_directive(file, option);
  return directive == nullptr ? "" : directive->value.value_or("");
}

/// One entry of a list of resources, split at its colons.
struct GpuEntry {
  std::string type;
  int count = 1;
};

std::optional<GpuEntry> gpu_entry(std::string_view entry, bool is_gres) {
  entry = entry.substr(0, entry.find('('));  // "(S:0-1)"
  if (entry.starts_with("gres/")) entry.remove_prefix(5);
  if (is_gres) {
    if (entry == "gpu") return GpuEntry{};
    if (!entry.starts_with("gpu:")) return std::nullopt;
    entry.remove_prefix(4);
  }
  const std::size_t colon = entry.rfind(':');
  GpuEntry gpu;
  if (colon != std::string_view::npos) gpu.type = entry.substr(0, colon);
  const std::string_view last = colon == std::string_view::npos ? entry : entry.substr(colon + 1);
  if (const auto count = count_of(last)) {
    gpu.count = *count;
  } else if (colon == std::string_view::npos && is_gres) {
    gpu.type = last;  // "gpu:a100" is one of them
  } else {
    return std::nullopt;
  }
  return gpu;
}

std::optional<GpuEntry> first_gpu(const std::string& text, bool is_gres) {
  std::string_view rest = text;
  std::optional<GpuEntry> sum;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (const auto gpu = gpu_entry(rest.substr(0, end), is_gres)) {
      sum = GpuEntry{sum && !sum->type.empty() ? sum->type : gpu->type,
                     gpu->count + (sum ? sum->count : 0)};
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return sum;
}

std::optional<int> gpus_of(const SbatchFile& file, std::string_view option, bool is_gres) {
  const Directive* directive = find_directive(file, option);
  if (directive == nullptr || !directive->value) return std::nullopt;
  return gpu_count(*directive->value, is_gres);
}

}  // namespace

std::optional<int> gpu_count(const std::string& text, bool is_gres) {
  const auto gpu = first_gpu(text, is_gres);
  return gpu ? std::optional(gpu->count) : std::nullopt;
}

std::string gpu_type_of(const std::string& text, bool is_gres) {
  const auto gpu = first_gpu(text, is_gres);
  return gpu ? gpu->type : "";
}

std::optional<int> JobRequest::all_tasks() const {
  if (tasks) return tasks;
  if (!nodes || !tasks_per_node) return std::nullopt;
  return *nodes * *tasks_per_node;
}

int JobRequest::node_count() const {
  if (nodes) return *nodes;
  const int on_each = tasks_per_node.value_or(0);
  return tasks && on_each > 0 ? divide_up(*tasks, on_each) : 1;
}

std::optional<int> JobRequest::tasks_on_node() const {
  // With --ntasks, --ntasks-per-node is a limit; the tasks still spread over the nodes.
  if (tasks && nodes && *nodes > 0) return divide_up(*tasks, *nodes);
  if (tasks_per_node) return tasks_per_node;
  if (nodes) return 1;
  return tasks;
}

std::optional<int> JobRequest::gpus_on_node() const {
  if (gpus_per_node) return gpus_per_node;
  if (gpus_per_task && tasks_on_node()) return *gpus_per_task * *tasks_on_node();
  if (gpus && nodes && *nodes > 0) return divide_up(*gpus, *nodes);
  return std::nullopt;
}

JobRequest job_request(const SbatchFile& file) {
  JobRequest request;
  request.nodes = requested_number(file, "nodes");
  request.tasks = requested_number(file, "ntasks");
  request.tasks_per_node = requested_number(file, "ntasks-per-node");
  request.cpus_per_task = requested_number(file, "cpus-per-task");
  request.gpus = gpus_of(file, "gpus", false);
  request.gpus_per_node = gpus_of(file, "gpus-per-node", false);
  if (!request.gpus_per_node) request.gpus_per_node = gpus_of(file, "gres", true);
  request.gpus_per_task = gpus_of(file, "gpus-per-task", false);
  if (const Directive* time = find_directive(file, "time"); time != nullptr && time->value) {
    const Result<std::chrono::seconds> limit = parse_time_limit(*time->value);
    if (limit.is_ok()) request.time = limit.value();
  }
  request.partition = text_of(file, "partition");
  request.qos = text_of(file, "qos");
  request.constraint = text_of(file, "constraint");
  request.account = text_of(file, "account");
  return request;
}

}  // namespace hvd
