// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

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

/// Whether a call chooses a GPU.
bool chooses_gpu(const PythonCall& call) {
  constexpr std::array<std::string_view, 4> kPaths{"torch.cuda.set_device", "torch.device",
                                                   "torch.cuda.device", "jax.config.update"};
  return std::find(kPaths.begin(), kPaths.end(), call.path) != kPaths.end() ||
         call.name == "set_visible_devices" || (call.name == "cuda" && call.path != "torch.cuda");
}

/// Whether the name at `at` is rank(), called of libhvd or Horovod.
bool calls_rank(const PythonScript& script, const PythonLine& line, std::size_t at) {
  if (line.tokens[at].text != "rank" || at + 1 >= line.tokens.size()) return false;
  if (line.tokens[at + 1].text != "(") return false;
  std::size_t first = at;
  while (first >= 2 && line.tokens[first - 1].text == ".") first -= 2;
  const std::string& name = line.tokens[first].text;
  const auto import = script.imports.find(name);
  return is_of_hvd(import == script.imports.end() ? name : import->second);
}

/// Whether a name is given the value of rank() itself: "me = hvd.rank()".
bool is_given_rank(const PythonScript& script, std::string_view name) {
  return std::any_of(script.lines.begin(), script.lines.end(), [&](const PythonLine& line) {
    const auto equals = assignment_of(line);
    if (!equals || line.tokens[*equals - 1].text != name || line.tokens.size() < *equals + 4) {
      return false;
    }
    return line.tokens.back().text == ")" && calls_rank(script, line, line.tokens.size() - 3);
  });
}

/// Whether a value is the rank in the job, and not in the node.
bool is_rank_of_job(const PythonScript& script, const PythonLine& line, TokenRange value) {
  bool is_found = false;
  for (std::size_t at = value.begin; at < value.end; ++at) {
    const PythonToken& token = line.tokens[at];
    // What divides or compares it may be right: rank() % 4.
    if (token.text == "%" || token.text == "//" || token.text == "if") return false;
    if (token.is_formatted && token.text.find("hvd.rank()}") != std::string::npos) is_found = true;
    const bool is_alone = at == value.begin && at + 1 == value.end;
    is_found =
        is_found || calls_rank(script, line, at) || (is_alone && is_given_rank(script, token.text));
  }
  return is_found;
}

void add_wrong_gpu(const PythonFacts& facts, const PythonCall& call,
                   std::vector<Finding>& findings) {
  if (!chooses_gpu(call)) return;
  const PythonLine& line = facts.script.lines[call.line_index];
  const bool is_wrong = std::any_of(call.arguments.begin(), call.arguments.end(),
                                    [&](const PythonArgument& argument) {
                                      return is_rank_of_job(facts.script, line, argument.value);
                                    });
  if (!is_wrong) return;
  findings.push_back({.rule = "gpu-by-rank",
                      .severity = Severity::kError,
                      .line = call.line,
                      .variable = call.path,
                      .why = "rank() counts over all nodes: on the second one there is no such GPU",
                      .fix = "hvd.local_rank() counts the ranks of a node"});
}

/// config.gpu_options.visible_device_list = str(hvd.rank())
void add_wrong_gpu_list(const PythonFacts& facts, const PythonLine& line,
                        std::vector<Finding>& findings) {
  const auto equals = assignment_of(line);
  if (!equals || line.tokens[*equals - 1].text != "visible_device_list") return;
  if (!is_rank_of_job(facts.script, line, {*equals + 1, line.tokens.size()})) return;
  findings.push_back({.rule = "gpu-by-rank",
                      .severity = Severity::kError,
                      .line = line.line,
                      .variable = "visible_device_list",
                      .why = "rank() counts over all nodes: on the second one there is no such GPU",
                      .fix = "hvd.local_rank() counts the ranks of a node"});
}

}  // namespace

std::vector<Finding> check_python_shares(const PythonFacts& facts) {
  std::vector<Finding> findings;
  for (const PythonCall& call : facts.script.calls) {
    add_unsplit_data(facts, call, findings);
    add_sampler_without_rank(facts, call, findings);
    add_wrong_gpu(facts, call, findings);
  }
  for (const PythonLine& line : facts.script.lines) add_wrong_gpu_list(facts, line, findings);
  return findings;
}

}  // namespace hvd
