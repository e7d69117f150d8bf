// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace hvd {

/// The GPUs of a node.
struct GresCount {
  int count = 0;
  std::string type;  ///< Empty: untyped, or several.
};

/// Those of a Gres field: "gpu:v100:4(S:0-1),shard:8", "gpu:a100:2,gpu:h100:2". Pure.
GresCount gpus_of_gres(std::string_view gres);

}  // namespace hvd
