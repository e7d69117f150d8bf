// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/method.h"

namespace hvd {

Result<MethodOffer> meet_by_pmix(const MethodInput& /*input*/) {
  return decline("this build has no PMIx: pmix.h was not found when it was configured");
}

}  // namespace hvd
