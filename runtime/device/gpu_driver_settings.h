// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/environment.h"

namespace hvd {

/// What the environment says about the driver of GPUs; empty in a build without.
struct GpuDriverSettings {
  std::string library = {};  ///< HVD_CUDA_LIBRARY, or HVD_HIP_LIBRARY; empty: the usual names.
  std::string visible = {};  ///< "CUDA_VISIBLE_DEVICES=0,1", for errors; empty: unset.

  static GpuDriverSettings from(const Environment& environment);
};

}  // namespace hvd
