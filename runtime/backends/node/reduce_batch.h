// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "collective/batch.h"
#include "collective/communicator.h"

namespace hvd {

/// A reduce or a reducescatter as the allreduce with the same elements, whose output is null
/// (*nowhere*) where they are not due on this rank. A reducescatter becomes one segment for each
/// segment and rank. Allocates the outputs that the caller left to the library.
Result<Batch> as_allreduce(Batch batch, const Communicator& communicator);

}  // namespace hvd
