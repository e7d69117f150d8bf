// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/live_rules.h"

#include "base/format.h"
#include "launcher/cluster/differences.h"
#include "launcher/cluster/objections.h"
#include "launcher/lint/site_facts.h"

namespace hvd {
namespace {

Finding live_finding(const SbatchFile& file, const std::string& option, const LiveCluster& live) {
  Finding finding{.rule = "live-cluster"};
  finding.variable = "--" + option;
  for (const Directive& directive : file.directives) {
    if (directive.option == option) finding.line = directive.line;
  }
  finding.source = format_text("cluster {}, now", live.name);
  return finding;
}

}  // namespace

std::vector<Finding> check_live(const SbatchFile& file, const SiteConfig& site,
                                const LiveCluster& live) {
  const JobRequest request = job_request(file);
  const LiveRequest asked{request.partition, request.qos, request.time, request.nodes};
  std::vector<Finding> findings;
  for (const LiveObjection& objection : live_objections(asked, live)) {
    Finding finding = live_finding(file, objection.option, live);
    finding.why = objection.text;
    findings.push_back(std::move(finding));
  }
  const SitePartition* partition = partition_of_job(site, request);
  if (partition == nullptr) return findings;
  for (const SiteDifference& difference : site_differences(site, live)) {
    const bool is_of_job = difference.partition == partition->name &&
                           (difference.qos.empty() || difference.qos == request.qos);
    if (!is_of_job) continue;
    Finding finding = live_finding(file, difference.qos.empty() ? "partition" : "qos", live);
    finding.severity = Severity::kNote;
    finding.why = difference.text;
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace hvd
