// SPDX-License-Identifier: Apache-2.0
// A whole environment, one NAME=VALUE a line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "topology/identity.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  hvd::Environment environment;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() < text.size() ? line.size() + 1 : line.size());
    const std::size_t sign = line.find('=');
    if (sign == std::string_view::npos) continue;
    environment.set(std::string(line.substr(0, sign)), std::string(line.substr(sign + 1)));
  }
  HVD_CHECK(!hvd::in_slurm_step(environment) || !hvd::in_slurm_shell(environment));
  const auto identity = hvd::derive_identity(environment);
  if (!identity.is_ok() || !identity.value()) return 0;
  const hvd::Identity& found = *identity.value();
  HVD_CHECK(found.rank >= 0 && (found.size == 0 || found.rank < found.size));
  HVD_CHECK(found.local_size != 0 && found.node_count != 0);
  HVD_CHECK(found.local_size < 0 || found.local_rank < found.local_size);
  HVD_CHECK(found.size == 0 || found.local_size <= found.size);
  HVD_CHECK(found.node_count < 0 || found.node < found.node_count);
  HVD_CHECK(hvd::is_started_by(found, found.source));
  return 0;
}
