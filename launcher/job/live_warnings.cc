// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/live_warnings.h"

#include "launcher/cluster/differences.h"
#include "launcher/cluster/objections.h"
#include "launcher/cluster/slurm_record.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

LiveRequest live_request(const JobPlan& plan) {
  LiveRequest request;
  for (const JobDirective& line : plan.directives) {
    if (line.option == "partition") request.partition = line.value;
    if (line.option == "qos") request.qos = line.value;
    if (line.option == "nodes") {
      if (const auto nodes = record_count(line.value)) request.nodes = nodes;
    }
    const auto time = line.option == "time" ? parse_time_limit(line.value)
                                            : Result<std::chrono::seconds>(std::chrono::seconds(0));
    if (time.is_ok() && time.value().count() > 0) request.time = time.value();
  }
  return request;
}

}  // namespace

std::vector<std::string> live_warnings(const SiteConfig& site, const JobPlan& plan,
                                       const LiveCluster& live) {
  const LiveRequest request = live_request(plan);
  std::vector<std::string> sentences;
  for (const LiveObjection& objection : live_objections(request, live)) {
    sentences.push_back("warning: " + objection.text);
  }
  for (const SiteDifference& difference : site_differences(site, live)) {
    const bool is_of_job = difference.partition == plan.partition.name &&
                           (difference.qos.empty() || difference.qos == request.qos);
    if (is_of_job) sentences.push_back("warning: " + difference.text);
  }
  return sentences;
}

}  // namespace hvd
