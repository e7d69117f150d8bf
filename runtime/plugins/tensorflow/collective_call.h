// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plugins/tensorflow/collective_kernel.h"
#include "plugins/tensorflow/done_callback.h"

namespace hvd::tensorflow {

/// Runs a node of a graph once: submits its tensors and returns. The engine's thread that completes
/// them sets the results and calls `done`; so it is with every failure.
void start_call(const CollectiveKernel& kernel, TF_OpKernelContext* context, DoneCallback done);

}  // namespace hvd::tensorflow
