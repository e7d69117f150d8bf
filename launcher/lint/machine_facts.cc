// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/machine_facts.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "base/format.h"

namespace hvd {
namespace {

std::vector<std::string> entries_of(const std::string& folder) {
  std::error_code failure;  // an absent folder is an answer: there is none
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

MachineFacts read_machine_facts(const std::string& root) {
  return {entries_of(root + "/sys/class/net"), entries_of(root + "/sys/class/infiniband"), ""};
}

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
