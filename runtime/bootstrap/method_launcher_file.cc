// SPDX-License-Identifier: Apache-2.0
// Launchers that give every rank a number and the job a name, but no secret and no store of ours:
// the ranks meet by a rendezvous file of that name. The file's mode keeps the key a secret, which
// no port next to MASTER_PORT with a derived key could.
#include "bootstrap/method.h"

namespace hvd {

Result<MethodOffer> meet_by_launcher_file(const MethodInput& input) {
  return meet_by_named_file(input,
                            format_text("{} (rendezvous file)", launcher_of(input.identity)));
}

}  // namespace hvd
