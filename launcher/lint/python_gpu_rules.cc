// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "launcher/lint/python_rules.h"
#include "launcher/lint/word_table.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

/// Whether a call takes GPUs alone: each of its arguments counts.
bool takes_gpu(const PythonCall& call) {
  constexpr std::array<std::string_view, 5> kPaths{"torch.device", "torch.cuda.device",
                                                   "cupy.cuda.Device", "jax.config.update",
                                                   "tensorflow.device"};
  constexpr std::array<std::string_view, 5> kNames{"set_device", "set_device_index",
                                                   "set_visible_devices", "set_memory_growth",
                                                   "set_logical_device_configuration"};
  return is_listed(kPaths, call.path) || is_listed(kNames, call.name) ||
         (call.name == "cuda" && call.path != "torch.cuda");
}

/// What the environment shows of the GPUs.
bool is_gpu_variable(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                                   "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"};
  return is_listed(kNames, name);
}

/// Whether a text, such as "cuda:" and "/gpu:0", is the name of a GPU.
bool names_gpu(std::string_view text) {
  for (const char* word : {"cuda", "gpu", "GPU", "hip:", "xpu:"}) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}

/// The dotted name that ends before `end`: "args.rank" of "args.rank = ..."; empty: none does.
std::string path_before(const PythonLine& line, std::size_t end) {
  std::string path;
  for (std::size_t at = end; at-- > 0;) {
    const PythonToken& token = line.tokens[at];
    const bool wants_name = path.empty() || path.front() == '.';
    if (wants_name ? !is_name(token) : !is_operator(token, ".")) break;
    path.insert(0, token.text);
  }
  return path.starts_with('.') ? "" : path;
}

/// Finds GPUs that are chosen by the rank in the job, and not in the node.
class GpuRule {
 public:
  explicit GpuRule(const PythonFacts& facts) : facts_(facts), script_(facts.script) {
    constexpr int kMostRounds = 4;  // of names that are given names
    std::set<Given> local;
    for (const PythonBinding& one : facts.bindings) {
      if (one.is_whole && is_local_rank(one)) local.insert(given_of(one));
    }
    for (int round = 0; round < kMostRounds; ++round) {
      const std::size_t before = ranks_.size();
      for (const PythonBinding& one : facts.bindings) {
        const Given given = given_of(one);
        if (one.is_whole && local.count(given) == 0 && hands_on_rank(one)) ranks_.insert(given);
      }
      if (ranks_.size() == before) break;
    }
  }

  /// Whether a value of a line is made of rank(), as it is.
  bool is_rank_of_job(std::size_t line_index, TokenRange value) const {
    return is_rank(script_.lines[line_index], value, facts_.places[line_index].function);
  }

 private:
  using Given = std::pair<std::size_t, std::string>;  ///< The function of a parameter, and a name.

  Given given_of(const PythonBinding& binding) const {
    const PythonLine& line = script_.lines[binding.line_index];
    const std::size_t begin = binding.value.begin;
    const bool is_plain =
        binding.function == kNoLine && begin > 0 && is_operator(line.tokens[begin - 1], "=");
    const std::string path = is_plain ? path_before(line, begin - 1) : "";
    const bool is_own = path == binding.name || path.ends_with("." + binding.name);
    return {binding.function, is_own ? path : binding.name};
  }

  /// Whose function the name at `at` calls without arguments: what imports say of its first part.
  std::string_view owner_of_call(const PythonLine& line, std::size_t at) const {
    if (at + 2 >= line.tokens.size() || !is_name(line.tokens[at])) return "";
    if (line.tokens[at + 1].text != "(" || line.tokens[at + 2].text != ")") return "";
    std::size_t first = at;
    while (first >= 2 && line.tokens[first - 1].text == ".") first -= 2;
    const std::string& name = line.tokens[first].text;
    const auto import = script_.imports.find(name);
    return import == script_.imports.end() ? name : import->second;
  }

  bool calls_local_rank(const PythonLine& line, std::size_t at) const {
    return line.tokens[at].text == "local_rank" && is_of_hvd(owner_of_call(line, at));
  }

  static bool is_variable_of_rank(std::string_view name) {
    return name == "HOROVOD_RANK" ||
           std::any_of(kLaunchSources.begin(), kLaunchSources.end(),
                       [&](const LaunchSource& source) { return name == source.rank; });
  }

  /// hvd.rank(), torch.distributed.get_rank(), os.environ["RANK"]: `at` is the name, or the string.
  bool asks_for_rank(const PythonLine& line, std::size_t at) const {
    constexpr std::array<std::string_view, 4> kReaders{"environ", "get", "getenv", "pop"};
    const PythonToken& token = line.tokens[at];
    if (token.kind == PythonTokenKind::kString) {
      return at >= 2 && is_variable_of_rank(token.text) && step_of_depth(line.tokens[at - 1]) > 0 &&
             is_listed(kReaders, line.tokens[at - 2].text);
    }
    if (token.text == "rank") return is_of_hvd(owner_of_call(line, at));
    const bool is_torch = token.text == "get_rank";
    return is_torch && owner_of_call(line, at).starts_with("torch.distributed");
  }

  /// Without the conversions around all of it: "rank()" of "int(rank())".
  static TokenRange without_conversions(const PythonLine& line, TokenRange value) {
    while (value.begin + 2 < value.end && is_operator(line.tokens[value.begin + 1], "(") &&
           (line.tokens[value.begin].text == "int" || line.tokens[value.begin].text == "str") &&
           end_of_brackets(line, value.begin + 1) == value.end) {
      value = {value.begin + 2, value.end - 1};
    }
    return value;
  }

  /// Whether a value is a dotted name, or asks for the rank, with nothing beside it.
  bool is_lookup(const PythonLine& line, TokenRange value) const {
    std::size_t at = value.begin;
    while (at < value.end && (is_name(line.tokens[at]) || is_operator(line.tokens[at], "."))) ++at;
    if (at == value.begin || at == value.end) return at == value.end;
    if (step_of_depth(line.tokens[at]) <= 0 || end_of_brackets(line, at) != value.end) return false;
    return asks_for_rank(line, at - 1) || asks_for_rank(line, at + 1);
  }

  bool is_local_rank(const PythonBinding& binding) const {
    const PythonLine& line = script_.lines[binding.line_index];
    const TokenRange value = without_conversions(line, binding.value);
    return value.end >= value.begin + 3 && calls_local_rank(line, value.end - 3);
  }

  /// Whether a value is the rank, or the name of a GPU with the rank in it.
  bool hands_on_rank(const PythonBinding& binding) const {
    const PythonLine& line = script_.lines[binding.line_index];
    const TokenRange value = without_conversions(line, binding.value);
    if (value.begin >= value.end) return false;
    const PythonToken& first = line.tokens[value.begin];
    const bool is_gpu = first.kind == PythonTokenKind::kString && names_gpu(first.text);
    return (is_gpu || is_lookup(line, value)) && is_rank_of_job(binding.line_index, value);
  }

  bool is_given(std::size_t function, const std::string& path) const {
    return ranks_.count({kNoLine, path}) != 0 || ranks_.count({function, path}) != 0;
  }

  /// Whether the name at `at` holds the rank, and is used as it is: of "f(rank)" nobody knows.
  bool is_given_rank(const PythonLine& line, TokenRange value, std::size_t at,
                     std::size_t function) const {
    if (!is_name(line.tokens[at])) return false;
    if (at > value.begin && is_operator(line.tokens[at - 1], ".")) return false;
    std::string path = line.tokens[at].text;
    std::size_t last = at;
    while (last + 2 < value.end && is_operator(line.tokens[last + 1], ".") &&
           is_name(line.tokens[last + 2])) {
      path += "." + line.tokens[last + 2].text;
      last += 2;
    }
    if (!is_given(function, path)) return false;
    if (last + 1 < value.end && step_of_depth(line.tokens[last + 1]) > 0) return false;
    if (at < value.begin + 2 || line.tokens[at - 1].text != "(") return true;
    const PythonToken& callee = line.tokens[at - 2];
    return !is_name(callee) || callee.text == "str" || callee.text == "int" ||
           callee.text == "format" || callee.text == "device";
  }

  /// The "else" of the "if" at `at`; the end of the value: it has none.
  static std::size_t else_of(const PythonLine& line, TokenRange value, std::size_t at) {
    int depth = 0;
    for (; at < value.end; ++at) {
      depth += step_of_depth(line.tokens[at]);
      if (depth < 0 || (depth == 0 && line.tokens[at].text == "else")) return at;
    }
    return value.end;
  }

  bool is_rank(const PythonLine& line, TokenRange value, std::size_t function) const {
    bool is_found = false;
    for (std::size_t at = value.begin; at < value.end; ++at) {
      const PythonToken& token = line.tokens[at];
      // What divides or compares it may be right: rank() % 4. "%d" % rank() only writes it.
      const bool writes = at > value.begin && line.tokens[at - 1].kind == PythonTokenKind::kString;
      if ((token.text == "%" && !writes) || token.text == "//") return false;
      if (is_name(token) && token.text == "if") {
        const std::size_t end = else_of(line, value, at);
        if (is_rank(line, {at + 1, end}, function)) return false;
        at = end;
      } else if (token.is_formatted) {
        is_found = is_found || is_rank_in_braces(token.text, function);
      } else {
        is_found = is_found || asks_for_rank(line, at) || is_given_rank(line, value, at, function);
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

  const PythonFacts& facts_;
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

/// The functions and classes that the file defines: what they make of an argument is seen there.
std::set<std::string_view> definitions_of(const PythonScript& script) {
  std::set<std::string_view> names;
  for (const PythonLine& line : script.lines) names.insert(defined_name(line));
  return names;
}

/// Whether argument `i` of a call is a GPU: model.to(DEVICE), torch.zeros(3, device=DEVICE).
bool is_gpu_argument(const PythonFacts& facts, const PythonCall& call, std::size_t i) {
  constexpr std::array<std::string_view, 5> kKeywords{"device", "device_ids", "output_device",
                                                      "map_location", "device_id"};
  const PythonArgument& argument = call.arguments[i];
  if (takes_gpu(call) || is_gpu_variable(argument.keyword)) return true;
  if (is_listed(kKeywords, argument.keyword)) return true;
  if (call.name == "to") return i == 0 && argument.keyword.empty();
  if (call.name != "putenv" && call.name != "setdefault") return false;
  const PythonLine& line = facts.script.lines[call.line_index];
  return i == 1 && is_gpu_variable(line.tokens[call.arguments[0].value.begin].text);
}

/// os.environ["CUDA_VISIBLE_DEVICES"] = VALUE: the value; absent: the line is no such assignment.
std::optional<TokenRange> shown_gpus(const PythonLine& line) {
  const auto equals = assignment_of(line);
  if (!equals || *equals < 2 || !is_operator(line.tokens[*equals - 1], "]")) return std::nullopt;
  const PythonToken& key = line.tokens[*equals - 2];
  if (key.kind != PythonTokenKind::kString || !is_gpu_variable(key.text)) return std::nullopt;
  return TokenRange{*equals + 1, line.tokens.size()};
}

}  // namespace

std::vector<Finding> check_python_gpus(const PythonFacts& facts) {
  std::vector<Finding> findings;
  const GpuRule rule(facts);
  const std::set<std::string_view> defined = definitions_of(facts.script);
  std::set<int> seen;  // lines: one finding says enough of each
  const auto add = [&](int line, const std::string& name) {
    if (seen.insert(line).second) findings.push_back(wrong_gpu(line, name));
  };
  for (const PythonCall& call : facts.script.calls) {
    const bool is_own = call.is_named && call.path == call.name && defined.count(call.name) != 0;
    for (std::size_t i = 0; i < call.arguments.size() && !is_own; ++i) {
      if (!is_gpu_argument(facts, call, i)) continue;
      if (!rule.is_rank_of_job(call.line_index, call.arguments[i].value)) continue;
      add(call.line, call.path);
      break;
    }
  }
  for (std::size_t i = 0; i < facts.script.lines.size(); ++i) {
    const PythonLine& line = facts.script.lines[i];
    const auto value = shown_gpus(line);
    if (!value || !rule.is_rank_of_job(i, *value)) continue;
    add(line.line, line.tokens[value->begin - 3].text);
  }
  // config.gpu_options.visible_device_list = str(hvd.rank())
  for (const PythonBinding& one : facts.bindings) {
    if (one.name != "visible_device_list") continue;
    if (!rule.is_rank_of_job(one.line_index, one.value)) continue;
    add(facts.script.lines[one.line_index].line, one.name);
  }
  return findings;
}

}  // namespace hvd
