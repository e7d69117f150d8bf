// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plugins/tensorflow/collective_kernel.h"
#include "plugins/tensorflow/done_callback.h"

namespace hvd::tensorflow {

/// Runs a node of a graph once: submits its tensors and returns. Whoever completes them sets the
/// results, or the failure, and calls `done`: the engine's thread, or this one, which drives what
/// is small and alone for a moment. What fails before it is submitted calls `done` on this thread.
void start_call(const CollectiveKernel& kernel, TF_OpKernelContext* context, DoneCallback done);

}  // namespace hvd::tensorflow
