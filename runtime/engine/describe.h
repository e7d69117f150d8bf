// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "engine/epoch.h"

namespace hvd {

/// Text for people: ranks, nodes, hosts, how they found each other, how a loss is seen, the backend
/// of each kind of work and why, which promise of reproducibility holds. Takes the progress lock.
std::string describe(Epoch& epoch);

}  // namespace hvd
