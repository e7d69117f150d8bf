// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/local_host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "base/rounding.h"

namespace hvd {
namespace {

int affinity_cpus() {
  // cpu_set_t holds 1024 CPUs; larger machines need the larger mask.
  std::array<cpu_set_t, 16> mask{};
  if (::sched_getaffinity(0, sizeof mask, mask.data()) != 0) return 1;
  return std::max(1, CPU_COUNT_S(sizeof mask, mask.data()));
}

/// The quotas of my cgroup and of every one above it all hold; the smallest counts.
int cgroup_cpus() {
  std::ifstream membership("/proc/self/cgroup");
  std::string line;
  std::string path;
  while (std::getline(membership, line)) {
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  }
  int smallest = 0;
  while (!path.empty()) {
    std::ifstream file("/sys/fs/cgroup" + path + "/cpu.max");
    std::string text;
    if (std::getline(file, text)) {
      const int cpus = cpus_of_quota(text);
      if (cpus > 0) smallest = smallest == 0 ? cpus : std::min(smallest, cpus);
    }
    if (path == "/") break;
    const auto slash = path.rfind('/');
    path = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
  }
  return smallest;
}

}  // namespace

std::string local_host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

int cpus_of_quota(const std::string& cpu_max) {
  std::istringstream words(cpu_max);
  long long quota = 0;
  long long period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(divide_up(quota, period));
}

int usable_cpus() {
  const int quota = cgroup_cpus();
  const int mask = affinity_cpus();
  return quota > 0 ? std::min(quota, mask) : mask;
}

}  // namespace hvd
