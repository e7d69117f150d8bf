// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "topology/hostlist.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto hosts = hvd::expand_hostlist(text, 4096);
  if (!hosts.is_ok()) return 0;
  HVD_CHECK(hvd::expand_hostlist(hvd::compress_hostlist(hosts.value())).value() == hosts.value());
  return 0;
}
