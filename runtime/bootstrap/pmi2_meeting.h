// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/status.h"
#include "bootstrap/method.h"

namespace hvd {

/// Rank 0 serves a store and puts its ticket in the PMI-2 key-value space; the others learn it
/// there. What is done stays in `input.kept`: after a timeout the next call goes on with it.
Status meet_by_pmi2(const MethodInput& input);

}  // namespace hvd
