// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/site/provenance.h"

namespace hvd {

/// A value that a stronger origin took the place of.
struct OverriddenValue {
  std::string value;
  std::string origin;
};

/// One variable that the ranks get, who wanted it and why.
struct PlannedVariable {
  std::string name;
  std::string value;
  std::string origin;  ///< "command line", "user environment", "site X", "fabric X", "default", ...
  std::string why;
  bool is_secret = false;                        ///< Printed as "(redacted)".
  Provenance provenance = {};                    ///< Of a site's or fabric's value.
  std::vector<OverriddenValue> overridden = {};  ///< From the strongest to the weakest.
};

/// A variable that a site or fabric offers and that is not set, and why not.
struct UnsetVariable {
  std::string name;
  std::string value;
  std::string origin;
  std::string why_not;
  Provenance provenance = {};
  bool needs_step_network = false;  ///< Set once the step is known to have its --network.
};

}  // namespace hvd
