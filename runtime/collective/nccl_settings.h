// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/environment.h"
#include "base/result.h"

namespace hvd {

/// What the environment says about the plane of NCCL (backends/nccl): settings of ours, and
/// variables of NCCL that it has to obey as well.
struct NcclSettings {
  std::string library = {};  ///< HVD_NCCL_LIBRARY; empty: the one that is found.
  bool shares_gpu = false;   ///< HVD_SHARE_GPU.
  bool registers = true;     ///< HVD_NCCL_REGISTER.
  bool uses_graphs = false;  ///< HVD_GPU_GRAPHS.
  bool wants_order = false;  ///< NCCL_LAUNCH_ORDER_IMPLICIT.
  bool blocks = false;       ///< NCCL_COMM_BLOCKING.
  std::string host_id = {};  ///< NCCL_HOSTID.
  /// Where NCCL's RAS is: NCCL_RAS_ADDR, else localhost:28028; empty: NCCL_RAS_ENABLE=0.
  std::string ras = {};

  static Result<NcclSettings> from(const Environment& environment);
};

}  // namespace hvd
