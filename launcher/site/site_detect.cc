// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_detect.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "launcher/site/pattern.h"
#include "launcher/site/slurm_conf.h"

namespace hvd {
namespace {

constexpr std::string_view kClusterName = "SLURM_CLUSTER_NAME";
constexpr std::string_view kSystemName = "SYSTEMNAME";

/// "SYSTEMNAME=juwels" where the variable has one of the values.
std::optional<std::string> by_variable(std::string_view name,
                                       const std::vector<std::string>& values,
                                       const Environment& environment) {
  const auto value = environment.get(name);
  if (!value || std::find(values.begin(), values.end(), *value) == values.end()) {
    return std::nullopt;
  }
  return format_text("{}={}", name, *value);
}

using Evidence = Result<std::optional<std::string>>;

Evidence of_variables(const SiteDetect& detect, const Environment& environment,
                      const HostFacts& /*host*/) {
  for (const SiteDetect::Variable& variable : detect.variables) {
    if (auto found = by_variable(variable.name, {variable.value}, environment)) return found;
  }
  return by_variable(kSystemName, detect.system_names, environment);
}

Evidence of_cluster(const SiteDetect& detect, const Environment& environment,
                    const HostFacts& /*host*/) {
  return by_variable(kClusterName, detect.cluster_names, environment);
}

/// A login node has no variable of Slurm's.
Evidence of_slurm_conf(const SiteDetect& detect, const Environment& /*environment*/,
                       const HostFacts& host) {
  const std::vector<std::string>& names = detect.cluster_names;
  if (host.cluster.empty() || std::find(names.begin(), names.end(), host.cluster) == names.end()) {
    return std::optional<std::string>();
  }
  return std::optional(format_text("slurm.conf says ClusterName={}", host.cluster));
}

Evidence of_hostname(const SiteDetect& detect, const Environment& /*environment*/,
                     const HostFacts& host) {
  if (detect.hostname.empty()) return std::optional<std::string>();
  HVD_TRY_ASSIGN(const bool matches, pattern_matches(detect.hostname, host.hostname));
  if (!matches) return std::optional<std::string>();
  return std::optional(format_text("the host name {} matches {}", host.hostname, detect.hostname));
}

Evidence of_domain(const SiteDetect& detect, const Environment& /*environment*/,
                   const HostFacts& host) {
  for (const std::string& domain : host.domains) {
    for (const std::string& known : detect.domains) {
      if (domain == known || domain.ends_with("." + known)) {
        return std::optional(format_text("the domain {} lies in {}", domain, known));
      }
    }
  }
  return std::optional<std::string>();
}

}  // namespace

HostFacts read_host_facts(std::string hostname, const Environment& environment) {
  HostFacts facts;
  facts.cluster = read_slurm_conf_cluster(environment);
  facts.hostname = std::move(hostname);
  if (const std::size_t dot = facts.hostname.find('.'); dot != std::string::npos) {
    facts.domains.push_back(facts.hostname.substr(dot + 1));
    return facts;
  }
  std::ifstream file("/etc/resolv.conf");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word != "search" && word != "domain") continue;
    while (words >> word) facts.domains.push_back(word);
  }
  return facts;
}

Result<std::optional<SiteClaim>> claim_site(const std::vector<SiteEntry>& entries,
                                            const Environment& environment, const HostFacts& host) {
  for (const auto look : {of_variables, of_cluster, of_slurm_conf, of_hostname, of_domain}) {
    for (const SiteEntry& entry : entries) {
      auto evidence = look(entry.detect, environment, host);
      if (!evidence.is_ok()) return evidence.status().with_context(entry.origin);
      if (evidence.value()) return std::optional(SiteClaim{&entry, *std::move(evidence).value()});
    }
  }
  return std::optional<SiteClaim>();
}

}  // namespace hvd
