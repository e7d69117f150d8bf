// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/submit_command.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "launcher/console/exit_code.h"
#include "launcher/console/message.h"
#include "launcher/console/shell_word.h"
#include "launcher/job/follow.h"
#include "launcher/job/launch_directory.h"
#include "launcher/job/submission.h"
#include "launcher/run/capture.h"
#include "launcher/run/exec.h"
#include "launcher/run/program_path.h"
#include "launcher/site/secret.h"

namespace hvd {
namespace {

/// sbatch itself gives up on a silent controller well before.
constexpr std::chrono::seconds kSbatchLimit{180};

int fail(const std::string& what, int code) {
  print_message(what);
  return code;
}

/// This command as it was typed, without the secrets in it.
std::string own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return shell_line(shown_arguments(std::move(words)));
}

std::string describe_command_file(const std::vector<std::string>& command,
                                  const std::string& working) {
  // A line break in an argument must not end the comment.
  std::string typed = own_command_line();
  for (std::size_t at = 0; (at = typed.find('\n', at)) != std::string::npos;) {
    typed.replace(at, 1, " ");
  }
  return format_text("#!/bin/sh\n# Typed: {}\n# This submits the same script again:\ncd {} && {}\n",
                     typed, shell_word(working), shell_line(command));
}

std::string describe_site(const SiteConfig& site, const SitePartition& partition,
                          const std::vector<std::string>& notes) {
  std::string text = format_text("site: {} ({})\nfile: {}\nfound by: {}\n", site.id, site.name,
                                 site.origin, site.found_by);
  if (!partition.name.empty()) {
    text += format_text("partition: {}, {} x {} per node, {} cores per task{}\n", partition.name,
                        partition.gpus_per_node, partition.gpu_model, partition.cores_per_task,
                        describe_provenance(partition.provenance));
  }
  for (const std::string& note : notes) text += "job: " + note + "\n";
  for (const std::string& note : site.notes) text += "note: " + note + "\n";
  return text;
}

/// `sbatch --parsable` writes "12" or "12;cluster".
std::string job_id(const std::string& output) {
  return output.substr(0, output.find_first_of(";\n"));
}

/// Says what sbatch says; gives its exit code.
int report_refusal(const Captured& answer, const std::string& folder) {
  std::fputs(answer.errors.c_str(), stderr);
  return fail(format_text("sbatch refused {}/job.sh: see its words above", folder),
              exit_code_of(answer.wait_status));
}

Result<std::string> submit(const PreparedJob& job, const JobOptions& options,
                           const SubmissionPlaces& places, const Environment& environment,
                           Captured& answer) {
  const std::vector<std::string> command =
      sbatch_command(options, places, contradicted_lines(job.plan, environment));
  if (const std::string output = folder_of_output(options.output, places.working);
      !output.empty()) {
    std::error_code failure;
    std::filesystem::create_directories(output, failure);
    if (failure) {
      print_message(
          format_text("warning: {}, the folder of --output, cannot be made here: {}; "
                      "where the nodes do not have it, the job ends without a word",
                      output, failure.message()));
    }
  }
  LaunchFiles files;
  files.script = job.text;
  files.environment = describe_environment(environment);
  files.command = describe_command_file(command, places.working);
  files.site = describe_site(job.site, job.plan.partition, job.plan.notes);
  HVD_TRY(write_launch_directory(places.folder, files));
  Result<Captured> answered = capture(command, environment, Deadline::after(kSbatchLimit));
  if (answered.status().code() == Code::kTimeout)
    return describe_silence(places.folder, kSbatchLimit);
  HVD_TRY_ASSIGN(answer, std::move(answered));
  return job_id(answer.output);
}

int dry_run(const PreparedJob& job, const JobOptions& options, const SubmissionPlaces& places,
            const Environment& environment) {
  const std::vector<std::string> command =
      sbatch_command(options, places, contradicted_lines(job.plan, environment));
  std::fprintf(stderr, "hvdrun: would write %s/job.sh, and run: %s\n", places.folder.c_str(),
               shell_line(command).c_str());
  return print_answer(job.text);
}

int follow(const std::string& id, const Environment& environment) {
  const Result<int> code = follow_job(id, environment);
  return code.is_ok() ? code.value() : fail(code.status().message(), kExitFailure);
}

}  // namespace

int submit_job(const PreparedJob& job, const JobOptions& options, const Environment& environment) {
  const Environment outside = submission_environment(environment);
  const bool absent = std::holds_alternative<ProgramProblem>(find_program("sbatch", outside));
  if (absent && !options.dry_run) {
    return fail(
        "no sbatch in PATH: this is not a login node of a Slurm cluster; 'hvdrun script' with the "
        "same options prints the script",
        kExitNotFound);
  }
  const Result<std::string> folder =
      choose_launch_directory(options.launch_dir, job_name(options), options.dry_run);
  if (!folder.is_ok()) return fail(folder.status().message(), kExitUsage);
  const SubmissionPlaces places{folder.value(), std::filesystem::current_path().string()};
  for (const ContradictedLine& line : contradicted_lines(job.plan, outside)) {
    print_message(describe_contradiction(line));
  }
  if (options.dry_run) return dry_run(job, options, places, outside);
  Captured answer;
  const Result<std::string> id = submit(job, options, places, outside, answer);
  if (!id.is_ok()) return fail(id.status().message(), kExitFailure);
  if (!answer.succeeded()) return report_refusal(answer, places.folder);
  std::fputs(answer.errors.c_str(), stderr);
  if (options.parsable) {
    std::printf("%s\n", id.value().c_str());
  } else {
    std::fprintf(options.follow ? stderr : stdout, "job %s, in %s\n", id.value().c_str(),
                 places.folder.c_str());
  }
  if (std::fflush(stdout) != 0) return kExitFailure;
  return options.follow ? follow(id.value(), outside) : 0;
}

int become_salloc(const std::vector<std::string>& words, const Environment& environment) {
  const Environment outside = submission_environment(environment);
  const auto found = find_program("salloc", outside);
  const auto* path = std::get_if<std::string>(&found);
  if (path == nullptr) {
    return fail("no salloc in PATH: this is not a login node of a Slurm cluster", kExitNotFound);
  }
  Command command;
  command.program = *path;
  command.arguments = words;
  for (const auto& [name, value] : outside.variables()) {
    command.variables.push_back(format_text("{}={}", name, value));
  }
  exec_command(command);
}

}  // namespace hvd
