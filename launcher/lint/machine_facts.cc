// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/machine_facts.h"

#include <algorithm>
#include <filesystem>

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

}  // namespace hvd
