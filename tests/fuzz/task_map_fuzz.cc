// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "topology/task_map.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tasks = hvd::parse_task_map(text);
  if (!tasks.is_ok()) return 0;
  HVD_CHECK(hvd::parse_task_map(hvd::format_task_map(tasks.value())).value() == tasks.value());
  return 0;
}
