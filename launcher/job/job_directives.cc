// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/job_directives.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "launcher/site/pattern.h"

namespace hvd {
namespace {

/// Values reach sbatch's own parser, where quotes, '#' and spaces mean something else.
constexpr std::string_view kDirectiveCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:;/=+@%&|*()!~^[]-";

/// The form that sbatch wants of an option's value, as a POSIX extended regular expression.
struct Form {
  std::string_view option;
  std::string pattern;
  std::string_view example;
};

const Form kForms[] = {
    {"array", "^[0-9]+([-,:][0-9]+)*(%[0-9]+)?$", "0-3, 0-9%2 or 1,5"},
    {"switches", "^[0-9]+(@[0-9:-]+)?$", "1 or 1@00:30:00"},
    {"mem", "^[0-9]+[KMGT]?$", "64G"},
    {"begin", "^[0-9A-Za-z:+/.-]+$", "now+2hours, 20:00 or 2026-12-31T20:00:00"},
    {"dependency",
     "^([a-z_]+(:[0-9]+(_[0-9*]+)?(\\+[0-9]+)?)*)([,?][a-z_]+(:[0-9]+(_[0-9*]+)?(\\+[0-9]+)?)*)*$",
     "afterok:123:124 or singleton"},
    {"mail-type",
     "^(NONE|BEGIN|END|FAIL|REQUEUE|ALL|INVALID_DEPEND|STAGE_OUT|TIME_LIMIT(_(90|80|50))?|"
     "ARRAY_TASKS)(,(BEGIN|END|FAIL|REQUEUE|ALL|INVALID_DEPEND|STAGE_OUT|TIME_LIMIT(_(90|80|50))?|"
     "ARRAY_TASKS))*$",
     "END,FAIL"},
    {"nice", "^-?[0-9]*$", "100"},
    {"open-mode", "^(append|truncate)$", "append"},
    {"signal",
     "^((R|B|RB|BR):)?((SIG)?(HUP|INT|QUIT|ABRT|KILL|ALRM|TERM|USR1|USR2|URG|CONT|STOP|TSTP|TTIN|"
     "TTOU|XCPU)|[1-9]|[1-5][0-9]|6[0-4])(@[0-9]{1,5})?$",
     "USR2@120 or B:USR2@120"},
};

std::string plan_constraint(const SitePartition& partition, const JobOptions& request) {
  if (partition.select != PartitionSelect::kConstraint) return request.constraint;
  if (request.constraint.empty() || request.constraint == partition.constraint) {
    return partition.constraint;
  }
  return partition.constraint + "&" + request.constraint;
}

Status check_form(const JobDirective& line) {
  for (const Form& form : kForms) {
    if (form.option != line.option) continue;
    HVD_TRY_ASSIGN(const bool matches, pattern_matches(form.pattern, line.value));
    if (matches) continue;
    return error(Code::kInvalidArgument, "--{} '{}' is not what sbatch takes: type for example {}",
                 line.option, line.value, form.example);
  }
  return Status::ok();
}

bool is_forbidden(const SiteConfig& site, std::string_view option) {
  return std::any_of(
      site.forbidden.begin(), site.forbidden.end(), [option](const SiteForbidden& forbidden) {
        return forbidden.option == option && forbidden.value.empty() && !forbidden.over;
      });
}

bool has_setting(const JobOptions& request, std::string_view name) {
  return std::any_of(request.sbatch.begin(), request.sbatch.end(),
                     [name](const SbatchSetting& setting) { return setting.name == name; });
}

/// Puts what the user typed in sbatch's words in the place of what the site says; of --gres, which
/// may hold several things, after it.
void take_settings(const JobOptions& request, std::vector<JobDirective>& lines) {
  for (const SbatchSetting& setting : request.sbatch) {
    const auto same =
        std::find_if(lines.begin(), lines.end(),
                     [&setting](const JobDirective& line) { return line.option == setting.name; });
    if (same == lines.end()) {
      lines.push_back({setting.name, setting.value});
    } else if (setting.name == "gres") {
      same->value += "," + setting.value;
    } else {
      same->value = setting.value;
    }
  }
}

/// The job's part of the memory of a node, where nodes are shared and the site says how much it is.
std::string plan_memory(const SiteConfig& site, const SitePartition& partition,
                        const JobOptions& request, const JobSize& size) {
  const bool comes_whole =
      partition.exclusive || partition.gpus_per_node == 0 || site.gres_style == GresStyle::kNone;
  if (!partition.memory_gb || comes_whole || is_forbidden(site, "mem")) return "";
  if (provenance_of(partition, "memory_gb").is_assumed()) return "";
  if (has_setting(request, "mem-per-cpu") || has_setting(request, "mem-per-gpu")) return "";
  // --exclusive gives the cores of the node, not its memory.
  if (request.exclusive) return format_text("{}G", *partition.memory_gb);
  return format_text("{}G", *partition.memory_gb * size.gpus_per_node / partition.gpus_per_node);
}

/// Whether the site refuses this line: the option, one of its values, or numbers above a limit.
bool matches(const SiteForbidden& forbidden, const JobDirective& line) {
  if (forbidden.option != line.option) return false;
  if (!forbidden.value.empty()) return forbidden.value == line.value;
  return !forbidden.over || std::atoll(line.value.c_str()) > *forbidden.over;
}

std::string upper_case(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

/// sbatch's own lead where none is typed.
constexpr int kDefaultLead = 60;

}  // namespace

Result<JobSignal> plan_signal(const JobOptions& request) {
  JobSignal signal{upper_case(request.signal), "", kDefaultLead};
  // USR2, not USR1, which communication libraries take; twice sbatch's lead, for a checkpoint.
  if (request.signal.empty() && request.requeue) signal.text = "B:USR2@120";
  if (signal.text.empty()) return signal;
  const bool is_known = check_form({"signal", signal.text}).is_ok();
  if (!is_known) HVD_TRY(check_form({"signal", request.signal}));  // as it was typed
  const std::size_t colon = signal.text.find(':');
  const std::size_t begin = colon == std::string::npos ? 0 : colon + 1;
  const std::size_t at = signal.text.find('@');
  signal.name = signal.text.substr(begin, at == std::string::npos ? at : at - begin);
  if (signal.name.starts_with("SIG")) signal.name.erase(0, 3);
  if (at != std::string::npos) signal.lead_seconds = std::atoi(signal.text.c_str() + at + 1);
  const bool to_batch_shell = signal.text.substr(0, begin).find('B') != std::string::npos;
  if (request.requeue && !to_batch_shell) {
    return error(Code::kInvalidArgument,
                 "--requeue waits for the signal in the batch shell: type --signal B:{}",
                 signal.text.substr(begin));
  }
  return signal;
}

std::string job_name(const JobOptions& request) {
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

std::vector<JobDirective> plan_directives(const SiteConfig& site, const SitePartition& partition,
                                          const JobOptions& request, const JobDecisions& decided) {
  std::vector<JobDirective> lines;
  const auto add = [&lines](std::string option, std::string value) {
    if (!value.empty()) lines.push_back({std::move(option), std::move(value)});
  };
  const JobSize& size = decided.size;
  const std::string site_type = site.typed ? partition.gpu_type : "";
  const std::string type_name = request.gpu_type.empty() ? site_type : request.gpu_type;
  const std::string type = type_name.empty() ? "" : type_name + ":";
  const std::string gpus = type + std::to_string(size.gpus_per_node);
  add("job-name", job_name(request));
  add(site.account_flag, decided.account);
  if (partition.select == PartitionSelect::kPartition) add("partition", partition.name);
  add("constraint", plan_constraint(partition, request));
  add("qos", decided.qos);
  add("nodes", std::to_string(size.nodes));
  add("ntasks-per-node", std::to_string(size.tasks_per_node));
  if (size.gpus_per_node > 0 && site.gres_style == GresStyle::kGres) add("gres", "gpu:" + gpus);
  if (size.gpus_per_node > 0 && site.gres_style == GresStyle::kGpusPerNode) {
    add("gpus-per-node", gpus);
  }
  if (size.gpus_per_node > 0 && site.gres_style == GresStyle::kGpus) {
    add("gpus", type + std::to_string(size.gpus()));
  }
  // ibrun hands out the cores of the node itself.
  if (size.cores_per_task > 0 && site.scheduler.launcher != "ibrun")
    add("cpus-per-task", std::to_string(size.cores_per_task));
  add("mem", request.mem.empty() ? plan_memory(site, partition, request, size) : request.mem);
  if (request.exclusive) lines.push_back({"exclusive", ""});
  add("hint", site.hint);
  for (const SiteDirective& fixed : site.directives) lines.push_back({fixed.option, fixed.value});
  add("switches", request.switches);
  add("time", decided.time);
  add("array", request.array);
  add("signal", decided.signal.text);
  if (request.requeue) {
    lines.push_back({"requeue", ""});
    add("open-mode", "append");  // else the second run overwrites the output of the first
  }
  add("output", request.output);
  take_settings(request, lines);
  return lines;
}

Status check_directives(const SiteConfig& site, const std::vector<JobDirective>& lines) {
  for (const JobDirective& line : lines) {
    if (const std::size_t bad = line.value.find_first_not_of(kDirectiveCharacters);
        bad != std::string::npos) {
      return error(Code::kInvalidArgument,
                   "--{} '{}' holds '{}', which a #SBATCH line cannot carry: leave it out",
                   line.option, line.value, line.value[bad]);
    }
    HVD_TRY(check_form(line));
    for (const SiteForbidden& forbidden : site.forbidden) {
      if (!matches(forbidden, line)) continue;
      return error(Code::kInvalidArgument, "site {} does not want --{}{}{}: {}{}", site.id,
                   line.option, line.value.empty() ? "" : "=", line.value, forbidden.why,
                   forbidden.provenance.is_assumed() ? " (assumed: verify it)" : "");
    }
  }
  return Status::ok();
}

}  // namespace hvd
