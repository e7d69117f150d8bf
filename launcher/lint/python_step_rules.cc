// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/format.h"
#include "launcher/lint/python_rules.h"
#include "launcher/lint/python_starts.h"
#include "launcher/lint/rule_table.h"

namespace hvd {
namespace {

/// Everything that holds for one of the files of a program.
template <typename Predicate>
bool any_file(const PythonProgram& program, Predicate predicate) {
  return predicate(program.script) ||
         std::any_of(program.modules.begin(), program.modules.end(), predicate);
}

template <typename Predicate>
bool any_call(const PythonProgram& program, Predicate predicate) {
  return any_file(program, [&](const PythonScript& script) {
    return std::any_of(script.calls.begin(), script.calls.end(), predicate);
  });
}

/// What libhvd answers after init() alone.
bool needs_init(const PythonCall& call) {
  constexpr std::array<std::string_view, 17> kNames{"rank",
                                                    "size",
                                                    "local_rank",
                                                    "local_size",
                                                    "cross_rank",
                                                    "cross_size",
                                                    "allreduce",
                                                    "allreduce_",
                                                    "allgather",
                                                    "allgather_object",
                                                    "broadcast",
                                                    "broadcast_object",
                                                    "alltoall",
                                                    "reducescatter",
                                                    "broadcast_parameters",
                                                    "barrier",
                                                    "join"};
  if (!is_of_hvd(call.path)) return false;
  return call.name.starts_with("Distributed") ||
         std::find(kNames.begin(), kNames.end(), call.name) != kNames.end();
}

void add_missing_init(const PythonFacts& facts, std::vector<Finding>& findings) {
  if (any_call(facts.program,
               [](const PythonCall& call) { return is_call_of_hvd(call, "init"); })) {
    return;
  }
  const auto first = std::find_if(facts.script.calls.begin(), facts.script.calls.end(), needs_init);
  if (first == facts.script.calls.end()) return;
  findings.push_back({.rule = "no-init",
                      .severity = Severity::kError,
                      .line = first->line,
                      .variable = first->path,
                      .why = "init() is never called, neither here nor in the modules beside it",
                      .fix = "call hvd.init() before anything else of hvd"});
}

/// What makes all ranks start alike without a broadcast; empty: nothing of the kind is there.
std::string_view other_start(const PythonFacts& facts) {
  constexpr std::array<std::string_view, 6> kSeeds{"manual_seed",     "set_seed", "set_random_seed",
                                                   "seed_everything", "PRNGKey",  "Rngs"};
  constexpr std::array<std::string_view, 4> kLoads{"load_state_dict", "load_weights", "load_model",
                                                   "from_pretrained"};
  const bool has_checkpoints = facts.script.names.count("Checkpoints") != 0;
  for (const PythonCall& call : facts.script.calls) {
    if (has_checkpoints && call.name == "load") return "they load";
    for (const std::string_view name : kLoads) {
      if (call.name == name) return "they load";
    }
    const bool is_seed = std::find(kSeeds.begin(), kSeeds.end(), call.name) != kSeeds.end() ||
                         call.path == "jax.random.key";
    const bool is_own = std::any_of(
        call.arguments.begin(), call.arguments.end(), [&](const PythonArgument& argument) {
          return facts.guards.is_made_from_rank(call.line_index, argument.value);
        });
    if (is_seed && !is_own) return "they draw from";
  }
  return "";
}

void add_missing_broadcast(const PythonFacts& facts, std::vector<Finding>& findings) {
  if (facts.wrapper == nullptr || starts_ranks_alike(facts.program)) return;
  Finding finding{.rule = "no-broadcast",
                  .severity = Severity::kError,
                  .line = facts.wrapper->line,
                  .variable = facts.wrapper->path,
                  .why =
                      "nothing sends rank 0's weights to the others: each rank starts with its "
                      "own, and they never become the same",
                  .fix =
                      "after the model is built: hvd.broadcast_parameters(model.state_dict(), "
                      "root_rank=0), BroadcastGlobalVariablesCallback(0) with Keras, or params = "
                      "hvd.broadcast_object(params, root_rank=0) with JAX"};
  if (const std::string_view other = other_start(facts); !other.empty()) {
    finding.severity = Severity::kNote;
    finding.why = format_text(
        "nothing sends rank 0's weights to the others: the ranks start alike "
        "only as long as {} the same, which the text does not show",
        other);
  }
  findings.push_back(std::move(finding));
}

void add_unscaled_rate(const PythonFacts& facts, std::vector<Finding>& findings) {
  if (facts.wrapper == nullptr) return;
  const bool is_summed = any_file(facts.program, [](const PythonScript& script) {
    return script.names.count("Adasum") + script.names.count("AdaSum") +
               script.names.count("Sum") !=
           0;
  });
  const bool knows_size = any_call(facts.program, [](const PythonCall& call) {
    return call.name == "size" || call.name == "local_size" || call.name == "learning_rate" ||
           call.name.find("LearningRate") != std::string::npos;
  });
  if (is_summed || knows_size) return;
  findings.push_back({.rule = "unscaled-rate",
                      .severity = Severity::kNote,
                      .line = facts.wrapper->line,
                      .variable = facts.wrapper->path,
                      .why = "nothing asks for the number of ranks: a learning rate that was right "
                             "for one rank is small for the batch of all",
                      .fix = "often base_rate * hvd.size(), with a warm-up; not every optimizer "
                             "wants it"});
}

/// Whether anything splits the data is beyond a look at the text where nothing asks for the rank.
void add_unseen_split(const PythonFacts& facts, std::vector<Finding>& findings) {
  const bool is_split = any_file(facts.program, [](const PythonScript& script) {
    return std::any_of(script.names.begin(), script.names.end(), [](std::string_view name) {
      return name == "rank" || name.find("ampler") != std::string_view::npos ||
             name.find("shard") != std::string_view::npos;
    });
  });
  if (facts.wrapper == nullptr || is_split) return;
  findings.push_back({.rule = "not-judged",
                      .severity = Severity::kNote,
                      .line = facts.wrapper->line,
                      .why = "nothing in the text asks for the rank: whether each rank reads data "
                             "of its own cannot be judged",
                      .fix = "see that it does: a sampler with rank=hvd.rank(), or "
                             "data[hvd.rank()::hvd.size()]"});
}

}  // namespace

std::vector<Finding> check_python_steps(const PythonFacts& facts) {
  std::vector<Finding> findings;
  if (!facts.script.is_run) return findings;
  add_missing_init(facts, findings);
  add_missing_broadcast(facts, findings);
  add_unscaled_rate(facts, findings);
  add_unseen_split(facts, findings);
  return findings;
}

}  // namespace hvd
