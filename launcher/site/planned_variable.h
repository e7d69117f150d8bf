// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hvd {

/// One variable that the ranks get, who wanted it and why.
struct PlannedVariable {
  std::string name;
  std::string value;
  std::string origin;  ///< "command line", "user environment", "site X", "default", "hvdrun"
  std::string why;
  bool is_secret = false;  ///< Printed as "(redacted)".
};

}  // namespace hvd
