// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/request/request.h"
#include "hvd/hvd.h"

namespace hvd {

/// The engine's form of a C request. Numbers without a meaning, and what cannot be read:
/// kInvalidArgument that names the field and the request; the rest is checked as the engine takes
/// the request (engine/request/request_check.h). Pure.
Result<Request> translate(const hvd_request& any_version);

/// Where the tensors of a request are that was translated alike (see RequestKey), and the root,
/// which the engine may have renumbered. Pure.
void translate_memory(const hvd_request& given, Request& request);

/// Type, shape and layout alone, checked; pointers may be null. Pure.
Result<Tensor> translate_description(std::string_view name, const hvd_tensor& tensor);

}  // namespace hvd
