// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/open_library.h"

#include <dlfcn.h>

namespace hvd {

void* open_library(const std::string& name) {
  // A library with threads or exit handlers does not survive being unloaded.
  return ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
}

}  // namespace hvd
