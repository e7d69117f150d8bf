// SPDX-License-Identifier: Apache-2.0
#include "launcher/cluster/read_cluster.h"

#include <utility>

#include "launcher/run/capture.h"
#include "topology/hostlist.h"

namespace hvd {
namespace {

/// `scontrol --oneliner`: the one form that all releases print alike. Their JSON, which scontrol
/// has from 23.02 on, changes with the release.
Result<std::string> ask_commands(const LiveQuestion& question, const Environment& environment,
                                 Deadline deadline) {
  std::vector<std::vector<std::string>> commands;
  if (!question.job_alone) {
    commands.push_back({"config"});
    commands.push_back({"partition"});
  }
  if (question.nodes) commands.push_back({"node"});
  if (!question.job.empty()) commands.push_back({"job", question.job});
  std::string all;
  for (const std::vector<std::string>& what : commands) {
    // Also of partitions that are hidden: jobs may be told to use them.
    std::vector<std::string> words{"scontrol", "--all", "--oneliner", "show"};
    words.insert(words.end(), what.begin(), what.end());
    HVD_TRY_ASSIGN(const std::string text,
                   capture_output(words, environment, deadline, question.interrupt));
    all += text + "\n";
  }
  return all;
}

/// The text of an answer, and who gave it.
struct LiveText {
  std::string text;
  std::string source;
};

Result<LiveText> read_live_text(const LiveQuestion& question, const Environment& environment,
                                Deadline deadline) {
  const SlurmFacts facts = read_slurm_facts(environment);
  const LiveSource source = choose_live_source(facts);
  if (source.way == LiveWay::kNone) return error(Code::kUnsupported, "{}", source.reason);
  if (source.way == LiveWay::kCommands) {
    HVD_TRY_ASSIGN(std::string text, ask_commands(question, environment, deadline));
    return LiveText{std::move(text), source.reason};
  }
  Result<std::string> text = ask_slurm_library(question, deadline);
  if (text.is_ok()) return LiveText{std::move(text).value(), source.reason};
  if (!facts.has_scontrol || text.status().code() == Code::kTimeout) return text.status();
  HVD_TRY_ASSIGN(std::string told, ask_commands(question, environment, deadline));
  return LiveText{std::move(told), format_text("scontrol ({})", text.status().message())};
}

}  // namespace

Result<LiveAnswer> read_live_cluster(const LiveQuestion& question, const Environment& environment,
                                     Deadline deadline) {
  HVD_TRY_ASSIGN(const LiveText told, read_live_text(question, environment, deadline));
  LiveAnswer answer;
  answer.source = told.source;
  answer.cluster = parse_live_cluster(told.text, "");
  if (!answer.cluster.has_accounts) {
    answer.notes.push_back("the cluster has no slurmdbd, and so no QoS");
    return answer;
  }
  const auto qos = capture_output({"sacctmgr", "--noheader", "--parsable2", "--readonly", "show",
                                   "qos", format_text("format={}", kQosFormat)},
                                  environment, deadline);
  if (qos.is_ok()) {
    answer.cluster = parse_live_cluster(told.text, qos.value());
  } else {
    answer.notes.push_back(format_text("QoS: {}", qos.status().message()));
  }
  return answer;
}

Result<std::string> read_live_job(const std::string& job, const Environment& environment,
                                  Deadline deadline, int interrupt) {
  const LiveQuestion question{
      .nodes = false, .job = job, .job_alone = true, .interrupt = interrupt};
  HVD_TRY_ASSIGN(LiveText told, read_live_text(question, environment, deadline));
  return std::move(told.text);
}

Result<std::vector<std::string>> read_job_nodes(const std::string& job,
                                                const Environment& environment, int interrupt) {
  HVD_TRY_ASSIGN(const std::string text,
                 read_live_job(job, environment, Deadline::after(kLongLook), interrupt));
  for (const JobStatus& status : parse_job_status(text)) {
    if (status.state == "RUNNING") return expand_hostlist(status.nodes);
  }
  return std::vector<std::string>();
}

}  // namespace hvd
