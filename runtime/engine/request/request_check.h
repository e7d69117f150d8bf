// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collective/communicator.h"
#include "engine/request/request.h"

namespace hvd {

/// The first mistake in a request that this rank can see by itself: kInvalidArgument. The numbers
/// in it have a meaning already. Pure.
Status check_request(const Request& request, const Communicator& world);

/// Why the bytes of a tensor cannot be counted, if they cannot: kInvalidArgument. Pure.
Status check_shape(const Tensor& tensor);

/// Fills in the splits that a checked alltoall or scatter leaves out: shared out evenly, and none
/// on ranks that are not the root. Pure.
void complete_splits(Request& request, const Communicator& world);

}  // namespace hvd
