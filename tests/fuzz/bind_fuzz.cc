// SPDX-License-Identifier: Apache-2.0
// What the user types after --bind, and Slurm's list of masks: read, and then bound to.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/check.h"
#include "launcher/options/bind_options.h"
#include "launcher/plan/binding.h"
#include "launcher/plan/task_masks.h"

namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const hvd::CpuSet mine{0, 1, 2, 3};
  const hvd::Environment environment(
      Variables{{"SLURM_CPU_BIND_LIST", text}, {"SLURM_CPU_BIND_TYPE", "mask_cpu:"}});
  const auto masks = hvd::task_masks(environment, mine, 1, 3);
  HVD_CHECK(masks.size() == 3 && masks[1] == mine);
  hvd::BindOptions options;
  if (!hvd::parse_bind(text, options).is_ok()) return 0;
  hvd::BindOptions again;
  const auto flags = hvd::bind_flags(options);
  HVD_CHECK(hvd::parse_bind(flags.at(1), again).is_ok() && again.map == options.map);
  hvd::BindRequest request;
  request.policy = options.policy;
  request.map = options.map;
  request.masks = {mine, mine};
  request.gpus = {-1, -1};
  const auto bound = hvd::bind_ranks(hvd::with_cores_of({}, mine), request);
  if (!bound.is_ok()) return 0;
  for (const hvd::BoundRank& rank : bound.value()) {
    HVD_CHECK(std::includes(mine.begin(), mine.end(), rank.cpus.begin(), rank.cpus.end()));
  }
  return 0;
}
