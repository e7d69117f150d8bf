// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/meeting.h"
#include "launcher/console/words.h"

#include <algorithm>

#include "base/format.h"
#include "launcher/plan/master_mark.h"
#include "topology/launch_env.h"
#include "topology/launch_source.h"
#include "transport/interfaces.h"

namespace hvd {
namespace {

/// Below the ports that the kernel gives out by itself, above those of services.
constexpr int kFirstPort = 20000;
constexpr int kPorts = 10000;
/// Steps of one job lie far from the jobs before and after it.
constexpr int kPortsBetweenSteps = 1009;

const SitePartition* partition_of(const SiteConfig& site, const std::string& name) {
  const auto found =
      std::find_if(site.partitions.begin(), site.partitions.end(),
                   [&](const SitePartition& partition) { return partition.name == name; });
  if (found != site.partitions.end()) return &*found;
  return site.partitions.empty() ? nullptr : &site.partitions.front();
}

/// A partition may have the site's value, and then has its source.
Provenance source_of_interfaces(const SiteConfig& site, const std::string& name) {
  const SitePartition* partition = partition_of(site, name);
  const bool is_own = partition != nullptr && partition->bootstrap_if != site.bootstrap_if;
  return is_own ? provenance_of(*partition, "bootstrap_if") : provenance_of(site, "bootstrap_if");
}

/// "n1" and "n1.cluster" become "n1i" and "n1i.cluster".
std::string with_suffix(const std::string& host, const std::string& suffix) {
  const std::size_t end = std::min(host.find('.'), host.size());
  return host.substr(0, end) + suffix + host.substr(end);
}

/// True where srun alone made this process a rank, and says the nodes. A rank of mpirun inherits
/// the variables of the step that mpirun's daemon is a task of, and that may be of fewer nodes.
bool is_task_of_srun(const Allocation& allocation) {
  const TaskLaunch* task = allocation.task();
  return task != nullptr && task->identity.source == kSlurmStep &&
         allocation.environment.has("SLURM_STEP_NODELIST");
}

void find_first_host(const Allocation& allocation, MeetingFacts& meeting) {
  const Environment& environment = allocation.environment;
  if (allocation.srun() == nullptr && !is_task_of_srun(allocation)) return;
  if (environment.get("SLURM_HET_SIZE").value_or("1") != "1") {
    meeting.no_host = "a heterogeneous job: the node of rank 0 may lie in another part";
  } else if (environment.get("SLURM_DISTRIBUTION").value_or("").starts_with("arbitrary")) {
    meeting.no_host = "--distribution=arbitrary: rank 0 may be on any node";
  } else if (!allocation.hosts.empty()) {
    meeting.first_host = allocation.hosts.front();
  }
}

std::optional<int> port_of_step(const Environment& environment) {
  const auto job = environment.get_int("SLURM_JOB_ID", 0, 1LL << 32);
  const auto step = environment.get_int("SLURM_STEP_ID", 0, 1LL << 32);
  if (!job.is_ok() || !step.is_ok() || !job.value() || !step.value()) return std::nullopt;
  return kFirstPort +
         static_cast<int>((*job.value() + *step.value() * kPortsBetweenSteps) % kPorts);
}

}  // namespace

MeetingFacts read_meeting(const Allocation& allocation, bool looks) {
  MeetingFacts meeting;
  meeting.partition = allocation.environment.get("SLURM_JOB_PARTITION").value_or("");
  if (looks) {
    std::vector<std::string> names;
    for (const Interface& interface : interfaces_of_host()) {
      if (interface.is_up) names.push_back(interface.name);
    }
    meeting.interfaces = std::move(names);
  }
  find_first_host(allocation, meeting);
  if (allocation.task() != nullptr) meeting.port = port_of_step(allocation.environment);
  return meeting;
}

std::vector<std::string> bootstrap_interfaces(const SiteConfig& site,
                                              const std::string& partition) {
  const SitePartition* found = partition_of(site, partition);
  return split(found == nullptr ? site.bootstrap_if : found->bootstrap_if, ',');
}

OfferedEnvironment offer_interfaces(const SiteConfig& site, const SiteFacts& facts,
                                    const MeetingFacts& meeting, bool assume) {
  const std::vector<std::string> wanted = bootstrap_interfaces(site, meeting.partition);
  if (wanted.empty()) return {};
  std::vector<std::string> there = wanted;
  if (meeting.interfaces) {
    std::erase_if(there, [&](const std::string& name) {
      const auto& all = *meeting.interfaces;
      return std::find(all.begin(), all.end(), name) == all.end();
    });
  }
  const bool is_any = !there.empty();
  const std::vector<std::string>& names = is_any ? there : wanted;
  const Provenance source = source_of_interfaces(site, meeting.partition);
  const std::string why = "the interfaces by which processes find each other (bootstrap_if)";
  const std::vector<SiteVariable> variables{
      {std::string(launch_env::kBootstrapInterface), joined(names, ","), "nodes>1", why, source},
      {"NCCL_SOCKET_IFNAME", joined(names, ","), "nodes>1", why, source},
      {"GLOO_SOCKET_IFNAME", names.front(), "nodes>1", why, source}};
  OfferedEnvironment offered = offer_variables(variables, "site " + site.id, facts, assume);
  if (is_any) return offered;
  for (PlannedVariable& variable : offered.variables) {
    offered.unset.push_back({variable.name, variable.value, variable.origin,
                             "no such interface of this node is up", variable.provenance});
  }
  offered.variables.clear();
  return offered;
}

OfferedEnvironment offer_master(const SiteConfig& site, const SiteFacts& facts,
                                const MeetingFacts& meeting, bool assume) {
  const std::string address(kMasterAddress);
  const std::string port(kMasterPort);
  OfferedEnvironment offered;
  if (!meeting.no_host.empty()) {
    offered.unset.push_back({address, "", "default", meeting.no_host, {}});
    return offered;
  }
  if (meeting.first_host.empty()) return offered;
  if (!site.master_addr_suffix.empty()) {
    offered = offer_variables(
        {{address, with_suffix(meeting.first_host, site.master_addr_suffix), "nodes>1",
          format_text("node of rank 0, for torch.distributed, by its name on the fast network "
                      "(master_addr_suffix: {})",
                      site.master_addr_suffix),
          provenance_of(site, "master_addr_suffix")}},
        "site " + site.id, facts, assume);
  }
  if (offered.variables.empty()) {
    offered.variables.push_back({address,
                                 meeting.first_host,
                                 "default",
                                 "node of rank 0, for torch.distributed",
                                 false,
                                 {},
                                 {}});
  }
  if (meeting.port) {
    offered.variables.push_back({port,
                                 std::to_string(*meeting.port),
                                 "default",
                                 "from the numbers of job and step, for torch.distributed",
                                 false,
                                 {},
                                 {}});
  } else {
    offered.unset.push_back(
        {port, "", "default", "each task makes it from the numbers of job and step", {}});
  }
  return offered;
}

}  // namespace hvd
