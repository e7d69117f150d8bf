// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "topology/cpu_set.h"
#include "topology/gpu_list.h"

// Lists of CPUs and GPUs: what is accepted is accepted again as it is written back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& parse : {hvd::parse_gpu_list, hvd::parse_affinity_mask}) {
    const auto entries = parse(text);
    if (!entries.is_ok()) continue;
    std::string again;
    for (const hvd::GpuEntry& entry : entries.value()) {
      again += (again.empty() ? "" : ",") + entry.text;
    }
    HVD_CHECK(parse(again).value().size() == entries.value().size());
  }
  const auto cpus = hvd::parse_cpu_set(text);
  if (!cpus.is_ok()) return 0;
  HVD_CHECK(hvd::parse_cpu_set(hvd::format_cpu_set(cpus.value())).value() == cpus.value());
  return 0;
}
