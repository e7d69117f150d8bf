// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// What became of a rank for which another one gave up; `how`: it has ended, empty: it has not.
std::string describe_lost_rank(int rank, const std::string& host, const std::string& how);

/// That a rank was lost though all programs ended well, and why that may be.
std::string hidden_failure_warning(int by, int lost);

}  // namespace hvd
