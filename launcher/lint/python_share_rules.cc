// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>
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

/// Whether a call chooses a GPU.
bool chooses_gpu(const PythonCall& call) {
  constexpr std::array<std::string_view, 5> kPaths{"torch.cuda.set_device", "torch.device",
                                                   "torch.cuda.device", "jax.config.update",
                                                   "tensorflow.device"};
  return std::find(kPaths.begin(), kPaths.end(), call.path) != kPaths.end() ||
         call.name == "set_visible_devices" || (call.name == "cuda" && call.path != "torch.cuda") ||
         (call.name == "to" && call.arguments.size() == 1);
}

/// Finds GPUs that are chosen by the rank in the job, and not in the node.
class GpuRule {
 public:
  GpuRule(const PythonScript& script, const std::vector<PythonBinding>& bindings)
      : script_(script) {
    std::set<Given> local;
    for (const PythonBinding& one : bindings) {
      const PythonLine& line = script.lines[one.line_index];
      const TokenRange value = one.value;
      const bool is_call = value.end >= value.begin + 3 && line.tokens[value.end - 1].text == ")";
      if (!is_call || !one.is_whole) continue;
      if (calls_of_hvd(line, value.end - 3, "rank")) ranks_.insert({one.function, one.name});
      if (calls_of_hvd(line, value.end - 3, "local_rank")) local.insert({one.function, one.name});
    }
    for (const Given& one : local) ranks_.erase(one);
  }

  /// `places` says in which function a line is.
  bool is_rank_of_job(const std::vector<BlockPlace>& places, std::size_t line_index,
                      TokenRange value) const {
    return is_rank(script_.lines[line_index], value, places[line_index].function);
  }

 private:
  using Given = std::pair<std::size_t, std::string>;  ///< The function of a parameter, and a name.

  /// Whether the name at `at` is that function, called of libhvd or Horovod without arguments.
  bool calls_of_hvd(const PythonLine& line, std::size_t at, std::string_view function) const {
    if (line.tokens[at].text != function || at + 1 >= line.tokens.size()) return false;
    if (line.tokens[at + 1].text != "(") return false;
    std::size_t first = at;
    while (first >= 2 && line.tokens[first - 1].text == ".") first -= 2;
    const std::string& name = line.tokens[first].text;
    const auto import = script_.imports.find(name);
    return is_of_hvd(import == script_.imports.end() ? name : import->second);
  }

  /// Whether the name at `at` holds the rank, and is used as it is: of "f(rank)" nobody knows.
  bool is_given_rank(const PythonLine& line, TokenRange value, std::size_t at,
                     std::size_t function) const {
    if (!is_name(line.tokens[at])) return false;
    const std::string& name = line.tokens[at].text;
    if (ranks_.count({kNoLine, name}) == 0 && ranks_.count({function, name}) == 0) return false;
    if (at > value.begin && line.tokens[at - 1].text == ".") return false;
    if (at + 1 < value.end && step_of_depth(line.tokens[at + 1]) > 0) return false;
    if (at < value.begin + 2 || line.tokens[at - 1].text != "(") return true;
    const PythonToken& callee = line.tokens[at - 2];
    return !is_name(callee) || callee.text == "str" || callee.text == "int" ||
           callee.text == "format";
  }

  bool is_rank(const PythonLine& line, TokenRange value, std::size_t function) const {
    bool is_found = false;
    for (std::size_t at = value.begin; at < value.end; ++at) {
      const PythonToken& token = line.tokens[at];
      // What divides or compares it may be right: rank() % 4. "%d" % rank() only writes it.
      const bool writes = at > value.begin && line.tokens[at - 1].kind == PythonTokenKind::kString;
      if ((token.text == "%" && !writes) || token.text == "//" || token.text == "if") return false;
      if (token.is_formatted) {
        is_found = is_found || is_rank_in_braces(token.text, function);
      } else {
        is_found =
            is_found || calls_of_hvd(line, at, "rank") || is_given_rank(line, value, at, function);
      }
    }
    return is_found;
  }

  bool is_rank_in_braces(std::string_view text, std::size_t function) const {
    for (std::size_t open = text.find('{'); open != std::string_view::npos;) {
      const std::size_t close = std::min(text.find('}', open), text.size());
      for (const PythonLine& line : read_python(text.substr(open + 1, close - open - 1))) {
        if (is_rank(line, {0, line.tokens.size()}, function)) return true;
      }
      open = text.find('{', close);
    }
    return false;
  }

  const PythonScript& script_;
  std::set<Given> ranks_;  ///< Names that are given rank(), and nowhere local_rank().
};

Finding wrong_gpu(int line, std::string name) {
  return {.rule = "gpu-by-rank",
          .severity = Severity::kError,
          .line = line,
          .variable = std::move(name),
          .why = "rank() counts over all nodes: on the second one there is no such GPU",
          .fix = "hvd.local_rank() counts the ranks of a node"};
}

void add_wrong_gpus(const PythonFacts& facts, std::vector<Finding>& findings) {
  const GpuRule rule(facts.script, facts.bindings);
  for (const PythonCall& call : facts.script.calls) {
    if (!chooses_gpu(call)) continue;
    const bool is_wrong = std::any_of(
        call.arguments.begin(), call.arguments.end(), [&](const PythonArgument& argument) {
          return rule.is_rank_of_job(facts.places, call.line_index, argument.value);
        });
    if (is_wrong) findings.push_back(wrong_gpu(call.line, call.path));
  }
  // config.gpu_options.visible_device_list = str(hvd.rank())
  for (const PythonBinding& one : facts.bindings) {
    if (one.name != "visible_device_list") continue;
    if (!rule.is_rank_of_job(facts.places, one.line_index, one.value)) continue;
    findings.push_back(wrong_gpu(facts.script.lines[one.line_index].line, one.name));
  }
}

}  // namespace

std::vector<Finding> check_python_shares(const PythonFacts& facts) {
  std::vector<Finding> findings;
  for (const PythonCall& call : facts.script.calls) {
    add_unsplit_data(facts, call, findings);
    add_sampler_without_rank(facts, call, findings);
  }
  add_wrong_gpus(facts, findings);
  return findings;
}

}  // namespace hvd
