// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "base/format.h"
#include "launcher/lint/machine_facts.h"

namespace hvd {

std::string loaded_nccl_version() {
  for (const char* file : {"libnccl.so.2", "libnccl.so"}) {
    // Left in place: a library with exit handlers does not survive being unloaded.
    void* library = dlopen(file, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) continue;
    using GetVersion = int (*)(int*);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): dlsym gives an object pointer.
    const auto get_version = reinterpret_cast<GetVersion>(dlsym(library, "ncclGetVersion"));
    int code = 0;
    if (get_version == nullptr || get_version(&code) != 0 || code <= 0) continue;
    // 2.8 and before: 2804 is 2.8.4; since 2.9: 22304 is 2.23.4.
    const int major = code >= 10000 ? code / 10000 : code / 1000;
    const int rest = code >= 10000 ? code % 10000 : code % 1000;
    return format_text("{}.{}.{}", major, rest / 100, rest % 100);
  }
  return "";
}

}  // namespace hvd
