// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/submission.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "launcher/plan/master_mark.h"
#include "launcher/site/secret.h"
#include "topology/launch_env.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

constexpr std::array<std::string_view, 10> kOfAJob{
    "SLURM_", "SLURMD_",          "SRUN_",      "PMI_",      "PMIX_",
    "PALS_",  "OMPI_COMM_WORLD_", "FLUX_TASK_", "MPI_LOCAL", "TORCHELASTIC_"};
/// Not about a job: how to find the controller, and how times are written.
constexpr std::array<std::string_view, 4> kOfTheUser{"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT",
                                                     "SLURM_TIME_FORMAT"};

bool is_of_a_job(std::string_view name) {
  if (std::find(kOfTheUser.begin(), kOfTheUser.end(), name) != kOfTheUser.end()) return false;
  return std::any_of(kOfAJob.begin(), kOfAJob.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

/// Those of sbatch's variables that are not named as their options are.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kVariables{
    {{"array", "SBATCH_ARRAY_INX"},
     {"mem", "SBATCH_MEM_PER_NODE"},
     {"switches", "SBATCH_REQ_SWITCH"},
     {"time", "SBATCH_TIMELIMIT"}}};

/// "gpus-per-node" becomes "SBATCH_GPUS_PER_NODE".
std::string sbatch_variable(const std::string& option) {
  for (const auto& [known, variable] : kVariables) {
    if (known == option) return std::string(variable);
  }
  std::string name = "SBATCH_";
  for (const char c : option) {
    const bool is_small = c >= 'a' && c <= 'z';
    name += c == '-' ? '_' : is_small ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return name;
}

/// sbatch replaces "%j" and its like in the path of the output.
std::string without_patterns(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '%' ? "%%" : std::string(1, c);
  return text;
}

}  // namespace

std::string elsewhere_note(const SiteConfig& site, const SiteConfig& here) {
  if (site.id == here.id || site.detect.is_empty()) return "";
  return format_text(
      "warning: site {} is not this machine ({}): the job goes to the Slurm here\nhint: "
      "'hvdrun script' with the same options prints it, to be submitted there",
      site.id,
      here.detect.is_empty() ? "no site claims it"
                             : format_text("which is {}, by {}", here.id, here.found_by));
}

Environment submission_environment(const Environment& environment) {
  Environment outside = environment;
  for (const std::string_view name :
       {launch_env::kRank, launch_env::kSize, launch_env::kLocalRank, launch_env::kLocalSize,
        launch_env::kNode, launch_env::kStore, launch_env::kJobKey, launch_env::kVirtualNode,
        launch_env::kLocalDevice, launch_env::kGpuId, launch_env::kJobMarker,
        launch_env::kLossPipe}) {
    outside.unset(name);
  }
  for (const std::string& name : marked_for_other_steps(environment, "")) outside.unset(name);
  if (environment.has(launch_env::kRank)) {  // then these are of the same rank
    for (const std::string_view name : kTorchIdentity) outside.unset(name);
  }
  if (!environment.has("SLURM_JOB_ID")) return outside;
  for (const auto& [name, value] : environment.variables()) {
    if (is_of_a_job(name)) outside.unset(name);
  }
  return outside;
}

std::string folder_of_output(const std::string& output, const std::string& working) {
  const std::size_t slash = output.rfind('/');
  if (slash == std::string::npos || slash == 0) return {};
  const std::string folder = output.substr(0, slash);
  if (folder.find('%') != std::string::npos) return {};
  return folder.front() == '/' ? folder : working + "/" + folder;
}

std::string describe_environment(const Environment& environment) {
  std::string text;
  for (const auto& [name, value] : environment.variables()) {
    std::string shown = is_secret(name, value) ? "(redacted)" : value;
    for (std::size_t at = 0; (at = shown.find('\n', at)) != std::string::npos; at += 2) {
      shown.replace(at, 1, "\\n");
    }
    text.append(name).append("=").append(shown).append("\n");
  }
  return text;
}

std::string ContradictedLine::flag() const {
  return "--" + line.option + (line.value.empty() ? "" : "=" + line.value);
}

std::vector<ContradictedLine> contradicted_lines(const JobPlan& plan,
                                                 const Environment& environment) {
  std::vector<ContradictedLine> contradicted;
  for (const JobDirective& line : plan.directives) {
    std::string name = sbatch_variable(line.option);
    std::optional<std::string> value = environment.get(name);
    if (!value || *value == line.value || line.value.empty()) continue;
    contradicted.push_back({std::move(name), *std::move(value), line});
  }
  return contradicted;
}

std::string describe_contradiction(const ContradictedLine& contradicted) {
  return format_text(
      "{0}='{1}' of your environment does not count for this job, which has {2}\nhint: for that "
      "value type --{3}={1}",
      contradicted.variable, contradicted.value, contradicted.flag(), contradicted.line.option);
}

Status describe_silence(const std::string& folder, std::chrono::seconds limit) {
  return error(Code::kTimeout,
               "sbatch gave no answer in {} s and was killed; the job may be queued all the same: "
               "'squeue --me' shows it, and {}/command.sh submits it again where it does not",
               limit.count(), folder);
}

std::vector<std::string> sbatch_command(const JobOptions& options, const SubmissionPlaces& places,
                                        const std::vector<ContradictedLine>& contradicted) {
  std::vector<std::string> words{"sbatch", "--parsable"};
  for (const ContradictedLine& line : contradicted) words.push_back(line.flag());
  const bool has_folder =
      std::any_of(options.sbatch.begin(), options.sbatch.end(),
                  [](const SbatchSetting& setting) { return setting.name == "chdir"; });
  if (!has_folder) words.push_back("--chdir=" + places.working);
  if (options.output.empty()) {
    words.push_back("--output=" + without_patterns(places.folder) +
                    (options.array.empty() ? "/%j.out" : "/%A_%a.out"));
  }
  words.push_back(places.folder + "/job.sh");
  return words;
}

}  // namespace hvd
