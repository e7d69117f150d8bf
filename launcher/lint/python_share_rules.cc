// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "launcher/lint/python_rules.h"

namespace hvd {
namespace {

std::string text_of(const PythonLine& line, TokenRange range) {
  std::string text;
  for (std::size_t at = range.begin; at < range.end; ++at) text += line.tokens[at].text;
  return text;
}

bool starts_torch_distributed(const PythonScript& script) {
  return script.names.count("init_process_group") != 0;
}

void add_unsplit_data(const PythonFacts& facts, const PythonCall& call,
                      std::vector<Finding>& findings) {
  if (facts.wrapper == nullptr || call.name != "DataLoader" || hides_arguments(call)) return;
  const PythonLine& line = facts.script.lines[call.line_index];
  const PythonArgument* shuffle = find_argument(call, "shuffle", 2);
  const bool has_sampler = find_argument(call, "sampler", 3) != nullptr ||
                           find_argument(call, "batch_sampler", 4) != nullptr;
  if (shuffle == nullptr || has_sampler || text_of(line, shuffle->value) != "True") return;
  const PythonArgument* data = find_argument(call, "dataset", 0);
  if (data == nullptr || facts.guards.is_made_from_rank(call.line_index, data->value)) return;
  Finding finding{.rule = "unsplit-data",
                  .line = call.line,
                  .variable = call.path,
                  .why =
                      "every rank goes over all the data, each in its own order: an epoch is as "
                      "many times too long as there are ranks",
                  .fix =
                      "sampler=DistributedSampler(dataset, num_replicas=hvd.size(), "
                      "rank=hvd.rank()) in the place of shuffle=True"};
  const bool splits_other = std::any_of(
      facts.script.names.begin(), facts.script.names.end(),
      [](std::string_view name) { return name.find("DistributedSampler") != name.npos; });
  if (splits_other || facts.reach.at(call.line_index, call.begin) == Reach::kSome) {
    finding.severity = Severity::kNote;
  }
  findings.push_back(std::move(finding));
}

void add_sampler_without_rank(const PythonFacts& facts, const PythonCall& call,
                              std::vector<Finding>& findings) {
  if (call.name != "DistributedSampler" || is_of_hvd(call.path) || hides_arguments(call)) return;
  const bool has_size = find_argument(call, "num_replicas", 1) != nullptr;
  const bool has_rank = find_argument(call, "rank", 2) != nullptr;
  if ((has_size && has_rank) || starts_torch_distributed(facts.script)) return;
  findings.push_back(
      {.rule = "sampler-without-rank",
       .severity = Severity::kError,
       .line = call.line,
       .variable = call.path,
       .why = format_text("without {} it asks torch.distributed, which this program does not start",
                          has_size ? "rank" : "num_replicas and rank"),
       .fix = "DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())"});
}

}  // namespace

std::vector<Finding> check_python_shares(const PythonFacts& facts) {
  std::vector<Finding> findings;
  for (const PythonCall& call : facts.script.calls) {
    add_unsplit_data(facts, call, findings);
    add_sampler_without_rank(facts, call, findings);
  }
  return findings;
}

}  // namespace hvd
