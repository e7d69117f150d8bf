// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/site_facts.h"

#include <algorithm>

#include "base/format.h"

namespace hvd {
namespace {

std::vector<std::string> features_of(const std::string& constraint) {
  constexpr std::string_view kJoints = "&|,[]()* ";
  std::vector<std::string> features;
  std::size_t begin = constraint.find_first_not_of(kJoints);
  while (begin != std::string::npos) {
    const std::size_t end = std::min(constraint.find_first_of(kJoints, begin), constraint.size());
    features.push_back(constraint.substr(begin, end - begin));
    begin = constraint.find_first_not_of(kJoints, end);
  }
  return features;
}

bool contains_word(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

bool asks_for_gpus(const JobRequest& request) {
  return request.gpus || request.gpus_per_node || request.gpus_per_task;
}

/// How much of the file is this site's own.
int score_of(const SiteConfig& site, const SbatchFile& file, const JobRequest& request) {
  int score = 0;
  for (const SitePartition& partition : site.partitions) {
    const bool is_named =
        partition.name == request.partition || contains_word(partition.aliases, request.partition);
    if (!request.partition.empty() && is_named) score += 2;
    if (!request.qos.empty() && find_qos(partition, request.qos) != nullptr) score += 2;
    if (!partition.constraint.empty() &&
        contains_word(features_of(request.constraint), partition.constraint)) {
      score += 1;
    }
    if (!partition.account_suffix.empty() && request.account.ends_with(partition.account_suffix)) {
      score += 3;
    }
    for (const ModuleLine& line : file.modules) {
      for (const std::string& module : line.names) {
        if (contains_word(partition.modules, module)) score += 2;
      }
    }
  }
  return score;
}

}  // namespace

const SitePartition* find_partition(const SiteConfig& site, const std::string& name) {
  for (const SitePartition& partition : site.partitions) {
    if (partition.name == name || contains_word(partition.aliases, name)) return &partition;
  }
  return nullptr;
}

const SitePartition* find_by_constraint(const SiteConfig& site, const std::string& constraint) {
  const std::vector<std::string> features = features_of(constraint);
  for (const SitePartition& partition : site.partitions) {
    if (partition.select != PartitionSelect::kConstraint) continue;
    const std::vector<std::string> own = features_of(partition.constraint);
    const bool has_all = std::all_of(own.begin(), own.end(), [&](const std::string& feature) {
      return contains_word(features, feature);
    });
    if (has_all && !own.empty()) return &partition;
  }
  return nullptr;
}

const SitePartition* partition_of_job(const SiteConfig& site, const JobRequest& request) {
  if (!request.partition.empty()) return find_partition(site, request.partition);
  if (const SitePartition* chosen = find_by_constraint(site, request.constraint)) return chosen;
  // The default for a job with GPUs; one without goes to nodes that site files do not list.
  const bool has_gpus = asks_for_gpus(request) || site.gres_style == GresStyle::kNone;
  for (const SitePartition& partition : site.partitions) {
    if (partition.select == PartitionSelect::kImplicit && has_gpus) return &partition;
  }
  return nullptr;
}

const SiteQos* find_qos(const SitePartition& partition, const std::string& name) {
  for (const SiteQos& qos : partition.qos) {
    if (name.empty() ? qos.is_default : qos.name == name) return &qos;
  }
  return nullptr;
}

std::optional<int> usable_cores(const SitePartition& partition) {
  if (partition.cores_per_node) return partition.cores_per_node;
  if (partition.gpus_per_node < 1 || partition.cores_per_task < 1) return std::nullopt;
  return partition.gpus_per_node * partition.cores_per_task;
}

std::string provenance_text(const Provenance& provenance) {
  if (provenance.source.empty()) return "";
  return format_text("{}, {}{}", provenance.source, provenance.date,
                     provenance.is_assumed() ? " (assumed)" : "");
}

Finding held_against(Finding finding, const Provenance& provenance) {
  finding.source = provenance_text(provenance);
  if (provenance.is_assumed()) {
    finding.severity = std::min(finding.severity, Severity::kWarning);
    finding.edit.reset();  // nothing is changed on the word of a guess
  }
  return finding;
}

const SiteConfig* site_of_script(const std::vector<SiteConfig>& sites, const SbatchFile& file) {
  const JobRequest request = job_request(file);
  const SiteConfig* best = nullptr;
  int highest = 1;  // a constraint alone, such as "gpu", is not proof
  bool is_shared = false;
  for (const SiteConfig& site : sites) {
    const int score = score_of(site, file, request);
    is_shared = score > highest ? false : is_shared || (score == highest && best != nullptr);
    if (score <= highest) continue;
    highest = score;
    best = &site;
  }
  return is_shared ? nullptr : best;
}

}  // namespace hvd
