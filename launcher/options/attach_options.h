// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hvd {

/// What the user typed after `hvdrun attach`.
struct AttachOptions {
  int job = 0;       ///< Number of the job; 0: list all.
  bool end = false;  ///< Tell the job to end.
  bool all = false;  ///< Show what it wrote from the beginning on.
  bool json = false;
};

}  // namespace hvd
