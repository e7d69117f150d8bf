// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/request/request.h"
#include "hvd/hvd.h"

namespace hvd {

/// The engine's form of a C request. Numbers without a meaning and null pointers where memory is
/// needed: kInvalidArgument that names the field and the request. Pure.
Result<Request> translate(const hvd_request& any_version);

/// Type, shape and layout alone; pointers may be null. Pure.
Result<Tensor> translate_description(std::string_view name, const hvd_tensor& tensor);

}  // namespace hvd
