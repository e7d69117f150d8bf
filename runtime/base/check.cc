// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace hvd {

void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "hvd: %s:%d: broken invariant: %s\n", file, line, expression);
  std::abort();
}

}  // namespace hvd
