// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/header.h"

#include <algorithm>
#include <filesystem>

#include "launcher/job/header_size.h"
#include "launcher/job/header_time.h"
#include "launcher/site/pattern.h"

namespace hvd {
namespace {

/// Values reach sbatch's own parser, where quotes, '#' and spaces mean something else.
constexpr std::string_view kDirectiveCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:;/=+@%&|*()!~^[]-";

bool fits(const std::string& limit, std::chrono::seconds time) {
  if (limit.empty()) return true;
  const Result<std::chrono::seconds> longest = parse_time_limit(limit);
  return !longest.is_ok() || time <= longest.value();
}

const SiteQos* find_qos(const SitePartition& partition, const std::string& name) {
  for (const SiteQos& qos : partition.qos) {
    if (name.empty() ? qos.is_default : qos.name == name) return &qos;
  }
  return nullptr;
}

/// What to type where `time` is over the limit of `qos`.
std::string time_remedy(const SitePartition& partition, const std::string& limit,
                        std::chrono::seconds time) {
  for (const SiteQos& other : partition.qos) {
    if (fits(other.max_time, time)) return format_text("type --qos {}", other.name);
  }
  return format_text("type --time {} or less", limit);
}

Status check_time(const SitePartition& partition, const SiteQos* qos, const std::string& text) {
  HVD_TRY_ASSIGN(const std::chrono::seconds time, parse_time_limit(text));
  if (qos != nullptr && !fits(qos->max_time, time)) {
    return error(Code::kInvalidArgument, "--time {} is over the {} of QoS {}: {}", text,
                 qos->max_time, qos->name, time_remedy(partition, qos->max_time, time));
  }
  if (!fits(partition.max_time, time)) {
    return error(Code::kInvalidArgument,
                 "--time {} is over the {} of partition {}: type --time {} or less", text,
                 partition.max_time, partition.name, partition.max_time);
  }
  return Status::ok();
}

Status check_qos(const SitePartition& partition, const HeaderOptions& request,
                 const HeaderSize& size) {
  const SiteQos* qos = find_qos(partition, request.qos);
  if (qos == nullptr && !request.qos.empty() && !partition.qos.empty()) {
    std::string known;
    for (const SiteQos& other : partition.qos) known += (known.empty() ? "" : ", ") + other.name;
    return error(Code::kInvalidArgument, "partition {} has no QoS '{}': it has {}", partition.name,
                 request.qos, known);
  }
  const int gpus = size.nodes * size.gpus_per_node;
  if (qos != nullptr && qos->max_gpus && gpus > *qos->max_gpus) {
    return error(Code::kInvalidArgument, "{} GPUs are over the {} of QoS {}: type --gpus {}", gpus,
                 *qos->max_gpus, qos->name, *qos->max_gpus);
  }
  return request.time.empty() ? Status::ok() : check_time(partition, qos, request.time);
}

/// The account as the site writes it: its GPU suffix appended, its pattern checked.
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
  return error(Code::kInvalidArgument, "'{}' is no account of site {}: they look like {}", account,
               site.id, site.account_example);
}

std::string plan_constraint(const SitePartition& partition, const HeaderOptions& request) {
  if (partition.select != PartitionSelect::kConstraint) return request.constraint;
  if (request.constraint.empty() || request.constraint == partition.constraint) {
    return partition.constraint;
  }
  return partition.constraint + "&" + request.constraint;
}

std::string job_name(const HeaderOptions& request) {
  if (!request.name.empty() || request.command.empty()) return request.name;
  std::filesystem::path program = request.command.front();
  for (const std::string& word : request.command) {  // "python3 train.py": the script says more
    if (word.ends_with(".py")) program = word;
  }
  std::string name = program.stem().string();
  for (char& c : name) {
    if (kDirectiveCharacters.find(c) == std::string_view::npos) c = '_';
  }
  return name;
}

std::vector<HeaderDirective> plan_directives(const SiteConfig& site, const SitePartition& partition,
                                             const HeaderOptions& request, const HeaderSize& size,
                                             const std::string& account) {
  std::vector<HeaderDirective> lines;
  const auto add = [&lines](std::string option, std::string value) {
    if (!value.empty()) lines.push_back({std::move(option), std::move(value)});
  };
  const std::string gpus = std::to_string(size.gpus_per_node);
  add("job-name", job_name(request));
  add("account", account);
  if (partition.select == PartitionSelect::kPartition) add("partition", partition.name);
  add("constraint", plan_constraint(partition, request));
  add("qos", request.qos);
  add("nodes", std::to_string(size.nodes));
  add("ntasks-per-node", std::to_string(size.tasks_per_node));
  if (size.gpus_per_node > 0 && site.gres_style == GresStyle::kGres) add("gres", "gpu:" + gpus);
  if (size.gpus_per_node > 0 && site.gres_style == GresStyle::kGpusPerNode) {
    add("gpus-per-node", gpus);
  }
  if (size.cores_per_task > 0) add("cpus-per-task", std::to_string(size.cores_per_task));
  for (const SiteDirective& fixed : site.directives) lines.push_back({fixed.option, fixed.value});
  add("time", request.time.empty() ? site.time : request.time);
  add("output", request.output);
  return lines;
}

Status check_directives(const SiteConfig& site, const std::vector<HeaderDirective>& lines) {
  for (const HeaderDirective& line : lines) {
    if (const std::size_t bad = line.value.find_first_not_of(kDirectiveCharacters);
        bad != std::string::npos) {
      return error(Code::kInvalidArgument,
                   "--{} '{}' holds '{}', which a #SBATCH line cannot carry: leave it out",
                   line.option, line.value, line.value[bad]);
    }
    for (const SiteForbidden& forbidden : site.forbidden) {
      if (forbidden.option != line.option) continue;
      return error(Code::kInvalidArgument, "site {} does not want --{}: {}", site.id, line.option,
                   forbidden.why);
    }
  }
  return Status::ok();
}

}  // namespace

Result<HeaderModel> plan_header(const SiteConfig& site, const HeaderOptions& request) {
  HVD_TRY_ASSIGN(const SitePartition partition, choose_partition(site, request));
  HVD_TRY_ASSIGN(const HeaderSize size, plan_size(site, partition, request));
  HVD_TRY(check_qos(partition, request, size));
  HVD_TRY_ASSIGN(const std::string account, plan_account(site, partition, request.account));
  HeaderModel model;
  model.shell = site.shell;
  if (!site.retired.empty()) model.notes.push_back("Retired: " + site.retired + ".");
  model.directives = plan_directives(site, partition, request, size, account);
  HVD_TRY(check_directives(site, model.directives));
  model.modules = partition.modules;  // "arch/h100" must come before what depends on it
  model.modules.insert(model.modules.end(), site.modules.begin(), site.modules.end());
  if (request.command.empty() && !model.modules.empty()) {
    std::string names;
    for (const std::string& module : model.modules) names += " " + module;
    model.notes.push_back("The script below must first: module load" + names);
  }
  for (const SiteVariable& variable : site.env) {
    if (variable.when == "historical") model.historical.push_back(variable);
  }
  model.environment = site_environment(site, {size.nodes, size.gpus_per_node});
  // srun of Slurm 22.05 to 23.02 does not take --cpus-per-task over from sbatch.
  if (size.cores_per_task > 0) {
    model.srun_flags.push_back(format_text("--cpus-per-task={}", size.cores_per_task));
  }
  model.srun_flags.insert(model.srun_flags.end(), site.srun_flags.begin(), site.srun_flags.end());
  model.command = request.command;
  return model;
}

}  // namespace hvd
