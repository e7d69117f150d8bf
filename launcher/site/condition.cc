// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/condition.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace hvd {
namespace {

enum class Kind { kPlain, kNumber, kVersion, kWord };

struct KnownFact {
  std::string_view name;
  Fact fact;
  Kind kind;
};

constexpr std::array<KnownFact, 12> kFacts{{{"always", Fact::kAlways, Kind::kPlain},
                                            {"historical", Fact::kHistorical, Kind::kPlain},
                                            {"nodes", Fact::kNodes, Kind::kNumber},
                                            {"gpus", Fact::kGpus, Kind::kNumber},
                                            {"nccl", Fact::kNccl, Kind::kVersion},
                                            {"plugin_found", Fact::kPluginFound, Kind::kPlain},
                                            {"container", Fact::kContainer, Kind::kPlain},
                                            {"fabric", Fact::kFabric, Kind::kWord},
                                            {"gpu_vendor", Fact::kGpuVendor, Kind::kWord},
                                            {"partition", Fact::kPartition, Kind::kWord},
                                            {"mixed_ports", Fact::kMixedPorts, Kind::kPlain},
                                            {"step_network", Fact::kStepNetwork, Kind::kWord}}};

constexpr std::string_view kGrammar =
    "write always, historical, nodes>N, gpus>N, nccl>=X.Y, plugin_found, container, fabric=KIND, "
    "mixed_ports, gpu_vendor=NAME, partition=NAME or step_network=WORD, joined by 'and', 'not' "
    "before one";

/// "2.27.3" as numbers; empty when it is none.
std::vector<int> parse_version(std::string_view text) {
  std::vector<int> parts;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    int number = 0;
    const auto [next, failure] = std::from_chars(at, end, number);
    if (failure != std::errc() || number < 0) return {};
    parts.push_back(number);
    if (next == end) return parts;
    if (*next != '.') return {};
    at = next + 1;
  }
}

bool fits(Kind kind, std::string_view comparison, std::string_view value) {
  if (kind == Kind::kPlain) return comparison.empty();
  if (kind == Kind::kWord) return comparison == "=" && !value.empty();
  const std::size_t parts = parse_version(value).size();
  return !comparison.empty() && (kind == Kind::kNumber ? parts == 1 : parts > 0);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::optional<ConditionTerm> parse_term(std::string_view word, bool is_negated) {
  const std::size_t name_end = std::min(word.find_first_of("<>="), word.size());
  const std::size_t value_begin = std::min(word.find_first_not_of("<>=", name_end), word.size());
  const std::string_view comparison = word.substr(name_end, value_begin - name_end);
  const std::string_view value = word.substr(value_begin);
  constexpr std::array<std::string_view, 6> kComparisons{"", ">", ">=", "<", "<=", "="};
  if (std::find(kComparisons.begin(), kComparisons.end(), comparison) == kComparisons.end()) {
    return std::nullopt;
  }
  for (const KnownFact& known : kFacts) {
    if (known.name != word.substr(0, name_end)) continue;
    if (!fits(known.kind, comparison, value)) return std::nullopt;
    if (is_negated && known.fact <= Fact::kHistorical) return std::nullopt;
    return ConditionTerm{known.fact, is_negated, std::string(comparison), std::string(value),
                         (is_negated ? "not " : "") + std::string(word)};
  }
  return std::nullopt;
}

bool compare(std::vector<int> left, const std::string& comparison, std::vector<int> right) {
  const std::size_t parts = std::max(left.size(), right.size());
  left.resize(parts);
  right.resize(parts);
  if (comparison == ">") return left > right;
  if (comparison == ">=") return left >= right;
  if (comparison == "<") return left < right;
  if (comparison == "<=") return left <= right;
  return left == right;
}

/// What a term finds: whether it holds, and the fact in words. An absent truth is unknown.
struct ConditionFinding {
  std::optional<bool> holds;
  std::string fact;
};

ConditionFinding of_number(const ConditionTerm& term, int number, std::string_view name) {
  return {compare({number}, term.comparison, parse_version(term.value)),
          format_text("{} is {}", name, number)};
}

ConditionFinding of_word(const ConditionTerm& term, const std::optional<std::string>& word,
                         std::string_view name) {
  if (!word) return {std::nullopt, format_text("the {} is not known", name)};
  return {*word == term.value, format_text("the {} is {}", name, *word)};
}

ConditionFinding of_flag(std::optional<bool> flag, std::string_view yes, std::string_view no,
                         std::string_view unknown) {
  return {flag, std::string(!flag ? unknown : *flag ? yes : no)};
}

ConditionFinding of_nccl(const ConditionTerm& term, const std::optional<std::string>& nccl) {
  const std::vector<int> found = nccl ? parse_version(*nccl) : std::vector<int>();
  if (found.empty()) return {std::nullopt, "no libnccl or librccl is found that tells its version"};
  return {compare(found, term.comparison, parse_version(term.value)), "NCCL is " + *nccl};
}

/// One of the words, separated by commas, that srun's --network has.
ConditionFinding of_network(const ConditionTerm& term, const std::optional<std::string>& network) {
  if (!network) {
    return {std::nullopt,
            format_text("srun does not tell its tasks: with `export SLURM_NETWORK={}` "
                        "before srun, instead of --network, they know",
                        term.value)};
  }
  return {("," + *network + ",").find("," + term.value + ",") != std::string::npos,
          format_text("SLURM_NETWORK is '{}'", *network)};
}

ConditionFinding find(const ConditionTerm& term, const SiteFacts& facts) {
  switch (term.fact) {
    case Fact::kAlways:
      return {true, ""};
    case Fact::kHistorical:
      return {false, "kept as text, never set"};
    case Fact::kNodes:
      return of_number(term, facts.nodes, "nodes");
    case Fact::kGpus:
      return of_number(term, facts.gpus_per_node, "gpus");
    case Fact::kNccl:
      return of_nccl(term, facts.nccl);
    case Fact::kPluginFound:
      return of_flag(facts.plugin_found, "a libfabric plugin is found",
                     "no libfabric plugin of NCCL or RCCL is found",
                     "it is not known whether a libfabric plugin is there");
    case Fact::kContainer:
      return of_flag(facts.container, "this is a container", "this is not a container",
                     "it is not known whether this is a container");
    case Fact::kFabric:
      return of_word(term, facts.fabric, "fabric");
    case Fact::kGpuVendor:
      return of_word(term, facts.gpu_vendor, "vendor of the GPUs");
    case Fact::kPartition:
      return of_word(term, facts.partition, "partition");
    case Fact::kMixedPorts:
      return of_flag(facts.mixed_ports, "some RDMA ports are not of the fabric",
                     "all RDMA ports are of the fabric", "the ports of the node are not known");
    case Fact::kStepNetwork:
      return of_network(term, facts.step_network);
  }
  return {};
}

}  // namespace

Result<Condition> parse_condition(std::string_view text) {
  Condition condition;
  bool wants_term = true;
  bool is_negated = false;
  for (const std::string_view word : words_of(text)) {
    if (!wants_term && word == "and") {
      wants_term = true;
    } else if (wants_term && !is_negated && word == "not") {
      is_negated = true;
    } else {
      const auto term = wants_term ? parse_term(word, is_negated) : std::nullopt;
      if (!term) {
        return error(Code::kInvalidArgument, "'{}' is not a condition at '{}': {}", text, word,
                     kGrammar);
      }
      condition.push_back(*term);
      wants_term = is_negated = false;
    }
  }
  if (wants_term)
    return error(Code::kInvalidArgument, "'{}' is not a condition: {}", text, kGrammar);
  return condition;
}

Verdict evaluate(const Condition& condition, const SiteFacts& facts) {
  using Truth = Verdict::Truth;
  Verdict verdict;
  for (const ConditionTerm& term : condition) {
    ConditionFinding finding = find(term, facts);
    if (finding.holds && *finding.holds != term.is_negated) continue;
    const std::string reason = term.text + ": " + finding.fact;
    if (finding.holds) return {Truth::kFalse, term.fact, reason};
    if (verdict.truth == Truth::kTrue) verdict = {Truth::kUnknown, term.fact, reason};
  }
  return verdict;
}

}  // namespace hvd
