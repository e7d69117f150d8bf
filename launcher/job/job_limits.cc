// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/job_limits.h"

#include "launcher/site/pattern.h"
#include "launcher/site/site_limits.h"
#include "launcher/site/time_limit.h"

namespace hvd {
namespace {

bool fits(const std::string& limit, std::chrono::seconds time) {
  if (limit.empty()) return true;
  const Result<std::chrono::seconds> longest = parse_time_limit(limit);
  return !longest.is_ok() || time <= longest.value();
}

/// The time that a job may take; to Slurm 0 is no limit.
Result<std::chrono::seconds> asked_time(const std::string& text) {
  HVD_TRY_ASSIGN(const std::chrono::seconds time, parse_time_limit(text));
  return time.count() == 0 ? std::chrono::seconds::max() : time;
}

/// The longest time, where it is not merely assumed.
template <typename Limits>
std::string known_max_time(const Limits& limits) {
  return provenance_of(limits, "max_time").is_assumed() ? "" : limits.max_time;
}

/// `partition` with the time limit that it has for jobs of so many nodes.
SitePartition limited_to(SitePartition partition, int nodes) {
  partition.max_time = max_time_for(partition, nodes);
  return partition;
}

/// " for jobs of up to 91 nodes" where its limit depends on that.
std::string up_to_nodes(const SitePartition& partition) {
  for (const SiteTimeByNodes& limit : partition.max_time_by_nodes) {
    if (limit.max_time == partition.max_time) {
      return format_text(" for jobs of up to {} nodes", limit.nodes);
    }
  }
  return "";
}

const SiteQos* named_qos(const SitePartition& partition, const std::string& name) {
  for (const SiteQos& qos : partition.qos) {
    if (name.empty() ? qos.is_default : qos.name == name) return &qos;
  }
  return nullptr;
}

/// A limit of a QoS that a job of some size breaks.
struct BrokenLimit {
  const char* field;  ///< "max_gpus"
  const char* unit;   ///< "GPUs"
  const char* option;
  int asked = 0;
  int limit = 0;
  bool is_minimum = false;
};

std::vector<BrokenLimit> broken_limits(const SiteQos& qos, const JobSize& size) {
  std::vector<BrokenLimit> broken;
  const auto add = [&](BrokenLimit one, const std::optional<int>& limit) {
    if (!limit || (one.is_minimum ? one.asked >= *limit : one.asked <= *limit)) return;
    one.limit = *limit;
    broken.push_back(one);
  };
  add({"max_gpus", "GPUs", "--gpus", size.gpus()}, qos.max_gpus);
  add({"max_nodes", "nodes", "--nodes", size.nodes}, qos.max_nodes);
  add({"min_gpus", "GPUs", "--gpus", size.gpus(), 0, true}, qos.min_gpus);
  add({"min_nodes", "nodes", "--nodes", size.nodes, 0, true}, qos.min_nodes);
  return broken;
}

/// The limit that is known, and not merely assumed, to keep a job of this size out of `qos`.
std::optional<BrokenLimit> known_limit(const SiteQos& qos, const JobSize& size) {
  for (const BrokenLimit& one : broken_limits(qos, size)) {
    if (!provenance_of(qos, one.field).is_assumed()) return one;
  }
  return std::nullopt;
}

bool has_room(const SiteQos& qos, const JobSize& size) { return !known_limit(qos, size); }

/// The first QoS that takes a job of this size and time; null where none does.
const SiteQos* roomy_qos(const SitePartition& partition, const JobSize& size,
                         const std::string& time_text) {
  const Result<std::chrono::seconds> time = asked_time(time_text);
  for (const SiteQos& qos : partition.qos) {
    if (has_room(qos, size) && (!time.is_ok() || fits(qos.max_time, time.value()))) return &qos;
  }
  return nullptr;
}

/// ", or --time T or less with --qos Q" for the QoS of the longest jobs of this size, where that is
/// longer than `limit`.
std::string longer_qos(const SitePartition& partition, const JobSize& size,
                       const std::string& limit) {
  std::string longest = limit;
  std::string advice;
  for (const SiteQos& qos : partition.qos) {
    const Result<std::chrono::seconds> time = parse_time_limit(qos.max_time);
    if (!has_room(qos, size) || !time.is_ok() || fits(longest, time.value())) continue;
    longest = qos.max_time;
    advice = format_text(", or --time {} or less with --qos {}", longest, qos.name);
  }
  return advice;
}

Status check_time(const SitePartition& partition, const SiteQos* qos, const JobSize& size,
                  const std::string& text) {
  HVD_TRY_ASSIGN(const std::chrono::seconds time, asked_time(text));
  const std::string asked = text + (time == std::chrono::seconds::max() ? " (no limit)" : "");
  const std::string limit = qos == nullptr ? "" : known_max_time(*qos);
  if (!fits(limit, time)) {
    const SiteQos* other = roomy_qos(partition, size, text);
    return error(Code::kInvalidArgument, "--time {} is over the {} of QoS {}: type {}", asked,
                 limit, qos->name,
                 other != nullptr
                     ? "--qos " + other->name
                     : "--time " + limit + " or less" + longer_qos(partition, size, limit));
  }
  if (!limit.empty()) return Status::ok();  // a QoS may go beyond its partition
  if (!fits(known_max_time(partition), time)) {
    return error(Code::kInvalidArgument,
                 "--time {} is over the {} of partition {}{}: type --time {} or less", asked,
                 partition.max_time, partition.name, up_to_nodes(partition), partition.max_time);
  }
  return Status::ok();
}

Status unknown_qos(const SiteConfig& site, const SitePartition& partition,
                   const std::string& name) {
  std::string known;
  for (const SiteQos& other : partition.qos) known += (known.empty() ? "" : ", ") + other.name;
  for (const SitePartition& other : site.partitions) {
    if (named_qos(other, name) == nullptr) continue;
    return error(Code::kInvalidArgument,
                 "QoS '{}' is one of partition {}: type --partition {}, or for partition {} --qos "
                 "with one of {}",
                 name, other.name, other.name, partition.name, known);
  }
  return error(Code::kInvalidArgument, "partition {} has no QoS '{}': it has {}", partition.name,
               name, known);
}

Status does_not_fit(const SiteQos& qos, const BrokenLimit& limit, const SiteQos* roomy) {
  const std::string other = roomy == nullptr ? "" : format_text(", or --qos {}", roomy->name);
  return error(Code::kInvalidArgument, "{} {} are {} the {} of QoS {}: type {} {}{}", limit.asked,
               limit.unit, limit.is_minimum ? "below" : "over", limit.limit, qos.name, limit.option,
               limit.limit, other);
}

/// A job that leaves GPUs of its nodes to others, by its size.
bool is_part_of_node(const SitePartition& partition, const JobSize& size) {
  return size.gpus_per_node > 0 && size.gpus_per_node < partition.gpus_per_node;
}

/// The QoS for parts of nodes in a partition whose other jobs get whole ones; null: none.
const SiteQos* sharing_qos(const SitePartition& partition, const JobSize& size) {
  if (!partition.exclusive || !is_part_of_node(partition, size)) return nullptr;
  for (const SiteQos& qos : partition.qos) {
    if (qos.shares_nodes && broken_limits(qos, size).empty()) return &qos;
  }
  return nullptr;
}

/// The site's own time where the limits allow it, else the limit in its way.
std::string usual_time(const SiteConfig& site, const SitePartition& partition, const SiteQos* qos) {
  const Result<std::chrono::seconds> usual = parse_time_limit(site.time);
  if (!usual.is_ok()) {  // the partition's own, so that the header says when the job ends
    return provenance_of(partition, "default_time").is_assumed() ? "" : partition.default_time;
  }
  if (qos != nullptr && !fits(qos->max_time, usual.value())) return qos->max_time;
  return fits(partition.max_time, usual.value()) ? site.time : partition.max_time;
}

}  // namespace

std::string plan_qos(const SitePartition& partition, const JobOptions& request,
                     const JobSize& size) {
  if (!request.qos.empty() || partition.qos.empty()) return request.qos;
  if (const SiteQos* sharing = request.exclusive ? nullptr : sharing_qos(partition, size)) {
    return sharing->name;
  }
  if (partition.qos.front().is_default) return "";
  const SiteQos* roomy = roomy_qos(partition, size, request.time);
  const SiteQos& chosen = roomy != nullptr ? *roomy : partition.qos.front();
  return chosen.is_default ? "" : chosen.name;
}

Result<std::string> plan_time(const SiteConfig& site, const SitePartition& any_size,
                              const JobOptions& request, const JobSize& size) {
  const SitePartition partition = limited_to(any_size, size.nodes);
  const SiteQos* qos = named_qos(partition, plan_qos(partition, request, size));
  if (qos == nullptr && !request.qos.empty() && !partition.qos.empty()) {
    return unknown_qos(site, partition, request.qos);
  }
  if (const auto limit = qos == nullptr ? std::nullopt : known_limit(*qos, size)) {
    return does_not_fit(*qos, *limit, roomy_qos(partition, size, request.time));
  }
  if (request.time.empty()) return usual_time(site, partition, qos);
  HVD_TRY(check_time(partition, qos, size, request.time));
  return request.time;
}

bool shares_nodes(const SitePartition& partition, const std::string& qos) {
  const SiteQos* named = qos.empty() ? nullptr : named_qos(partition, qos);
  return named != nullptr && named->shares_nodes;
}

std::string missing_time(const SitePartition& partition, int nodes) {
  const std::string limit = max_time_for(partition, nodes);
  return limit.empty() ? "H:MM:SS" : format_text("H:MM:SS, {} at most", limit);
}

std::vector<std::string> limit_notes(const SitePartition& partition, const std::string& qos,
                                     const JobSize& size) {
  std::vector<std::string> notes;
  const SiteQos* named = named_qos(partition, qos);
  if (named == nullptr) return notes;
  for (const BrokenLimit& one : broken_limits(*named, size)) {
    notes.push_back(format_text(
        "QoS {} may take {} {} a job {}, and these are {}: the site file "
        "assumes it, so verify it.",
        named->name, one.limit, one.unit, one.is_minimum ? "at least" : "at most", one.asked));
  }
  return notes;
}

Result<std::string> plan_account(const SiteConfig& site, const SitePartition& partition,
                                 const std::string& typed) {
  if (typed.empty()) return std::string();
  const std::string& suffix = partition.account_suffix;
  const std::size_t at = typed.find('@');
  if (!suffix.empty() && at != std::string::npos && typed.substr(at) != suffix) {
    return error(Code::kInvalidArgument,
                 "account '{}' is not charged for partition {}: type --account {}{}", typed,
                 partition.name, typed.substr(0, at), suffix);
  }
  std::string account = at == std::string::npos ? typed + suffix : typed;
  if (site.account_pattern.empty()) return account;
  HVD_TRY_ASSIGN(const bool matches, pattern_matches(site.account_pattern, account));
  if (matches) return account;
  return error(Code::kInvalidArgument, "'{}' is not an account of site {}: they look like {}",
               account, site.id, site.account_example);
}

}  // namespace hvd
