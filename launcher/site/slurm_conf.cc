// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/slurm_conf.h"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

namespace hvd {
namespace {

/// Where Slurm's packages, its own default, its daemons without files and vendors have it.
constexpr std::array<const char*, 6> kPlaces{
    "/etc/slurm/slurm.conf",           "/run/slurm/conf/slurm.conf", "/usr/local/etc/slurm.conf",
    "/usr/local/etc/slurm/slurm.conf", "/opt/slurm/etc/slurm.conf",  "/etc/slurm-llnl/slurm.conf"};
constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool is_cluster_name(std::string_view key) {
  constexpr std::string_view kKey = "ClusterName";  // Slurm takes any case
  return key.size() == kKey.size() && ::strncasecmp(key.data(), kKey.data(), kKey.size()) == 0;
}

}  // namespace

std::string slurm_conf_path(const Environment& environment) {
  if (const auto typed = environment.get("SLURM_CONF"); typed && !typed->empty()) {
    return ::access(typed->c_str(), R_OK) == 0 ? *typed : "";
  }
  const auto* found = std::find_if(kPlaces.begin(), kPlaces.end(),
                                   [](const char* path) { return ::access(path, R_OK) == 0; });
  return found == kPlaces.end() ? "" : *found;
}

std::string cluster_name_of(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = line.substr(0, line.find('#'));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || !is_cluster_name(trimmed(line.substr(0, equals)))) {
      continue;
    }
    return std::string(trimmed(line.substr(equals + 1)));
  }
  return "";
}

std::string read_slurm_conf_cluster(const Environment& environment) {
  const std::string path = slurm_conf_path(environment);
  if (path.empty()) return "";
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return cluster_name_of(text.str());
}

}  // namespace hvd
