// SPDX-License-Identifier: Apache-2.0
#include "launcher/header_command.h"

#include <cstdio>

namespace hvd {

int run_header(const HeaderOptions& /*options*/) {
  std::fputs("hvdrun header: not in this build\n", stderr);
  return 2;
}

}  // namespace hvd
