// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "launcher/cluster/live_cluster.h"
#include "launcher/cluster/objections.h"
#include "launcher/env/site_draft.h"
#include "launcher/site/slurm_conf.h"

/// What Slurm prints, and behind a zero byte what sacctmgr does. Whatever can be drafted is a site
/// file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hvd;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = std::min(text.find('\0'), text.size());
  const std::string qos = zero < text.size() ? text.substr(zero + 1) : "";
  LiveCluster live = parse_live_cluster(text.substr(0, zero), qos);
  for (const JobStatus& job : live.jobs) (void)describe_job(job, "");
  (void)live_objections({"gpu", "long", std::chrono::hours(90), 3}, live);
  (void)cluster_name_of(text);
  const auto draft = draft_site({std::move(live), "", "2026-11-25"});
  HVD_CHECK(draft.is_ok() || draft.status().code() == Code::kSystem);
  return 0;
}
