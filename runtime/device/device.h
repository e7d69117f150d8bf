// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hvd {

/// Where a tensor's memory lives. The numbers are those of `hvd_device_kind` in hvd.h.
enum class DeviceKind : std::uint8_t { kCpu = 0, kCuda = 1, kRocm = 2 };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  std::int32_t index = 0;

  bool operator==(const Device&) const = default;
};

}  // namespace hvd
