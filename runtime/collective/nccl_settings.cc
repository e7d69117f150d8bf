// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl_settings.h"

#include <cstdlib>

#include "base/read_setting.h"
#include "topology/launch_env.h"

namespace hvd {
namespace {

/// As NCCL reads a number of its own: "" and what is none are 0. A rank that takes for on what NCCL
/// takes for off would leave the order of kernels to nobody.
bool is_on_for_nccl(const Environment& environment, std::string_view name) {
  return std::strtoll(environment.get(name).value_or("").c_str(), nullptr, 0) != 0;
}

}  // namespace

Result<NcclSettings> NcclSettings::from(const Environment& environment) {
  NcclSettings settings;
  settings.library = read_text(environment, "HVD_NCCL_LIBRARY");
  HVD_TRY_ASSIGN(settings.shares_gpu, read_switch(environment, launch_env::kShareGpu));
  HVD_TRY_ASSIGN(settings.registers, read_switch(environment, "HVD_NCCL_REGISTER"));
  HVD_TRY_ASSIGN(settings.uses_graphs, read_switch(environment, "HVD_GPU_GRAPHS"));
  settings.wants_order = is_on_for_nccl(environment, "NCCL_LAUNCH_ORDER_IMPLICIT");
  settings.blocks = is_on_for_nccl(environment, "NCCL_COMM_BLOCKING");
  settings.host_id = environment.get("NCCL_HOSTID").value_or("");
  if (environment.get("NCCL_RAS_ENABLE").value_or("1") != "0") {
    settings.ras = environment.get("NCCL_RAS_ADDR").value_or("localhost:28028");
  }
  return settings;
}

}  // namespace hvd
