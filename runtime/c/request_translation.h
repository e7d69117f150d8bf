// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "engine/request.h"
#include "hvd/hvd.h"

namespace hvd {

/// The engine's form of a C request. Numbers without a meaning and null pointers where memory is
/// needed: kInvalidArgument that names the field and the request. Pure.
Result<Request> translate(const hvd_request& request);

}  // namespace hvd
