// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "topology/cpu_set.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto cpus = hvd::parse_cpu_set(text);
  if (!cpus.is_ok()) return 0;
  HVD_CHECK(std::is_sorted(cpus.value().begin(), cpus.value().end()));
  HVD_CHECK(hvd::parse_cpu_set(hvd::format_cpu_set(cpus.value())).value() == cpus.value());
  return 0;
}
