// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hvd {

/// The note, if one is due, about a job of which no rank came to the store: a script in Python that
/// never calls init() trains so many times the same. Of other programs there is nothing to say:
/// many are run once a rank on purpose.
std::vector<std::string> apart_note(int ranks, const std::vector<std::string>& command);

}  // namespace hvd
