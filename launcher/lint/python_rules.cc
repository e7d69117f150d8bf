// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/python_rules.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "launcher/lint/python_program.h"

namespace hvd {
namespace {

const PythonCall* find_wrapper(const PythonScript& script) {
  constexpr std::array<std::string_view, 5> kNames{
      "DistributedOptimizer", "DistributedGradientTape", "DistributedAdasumOptimizer",
      "PartialDistributedOptimizer", "PartialDistributedGradientTape"};
  const auto found =
      std::find_if(script.calls.begin(), script.calls.end(), [&](const PythonCall& call) {
        return is_of_hvd(call.path) &&
               std::find(kNames.begin(), kNames.end(), call.name) != kNames.end();
      });
  return found == script.calls.end() ? nullptr : &*found;
}

/// A program that hvd has no part in: what its ranks do with each other is not ours to judge.
std::vector<Finding> not_of_hvd(const PythonScript& script) {
  Finding finding{.rule = "not-judged", .severity = Severity::kNote};
  if (script.names.count("init_process_group") != 0) {
    finding.why =
        "it trains with torch.distributed, and programs of hvd and Horovod alone are "
        "judged";
  } else {
    finding.why =
        "it imports neither hvd nor horovod, and programs of these alone are judged: "
        "unless another package joins them, each rank runs it by itself";
    finding.fix = "import hvd.torch as hvd (or hvd.keras, hvd.tensorflow) and call hvd.init()";
  }
  return {finding};
}

}  // namespace

bool is_call_of_hvd(const PythonCall& call, std::string_view name) {
  return call.name == name && is_of_hvd(call.path);
}

std::vector<Finding> lint_python(const PythonProgram& program) {
  const PythonScript& script = program.script;
  const bool joins =
      uses_hvd(script) || std::any_of(program.modules.begin(), program.modules.end(), uses_hvd);
  if (!joins) return not_of_hvd(script);
  const std::vector<BlockPlace> places = places_of_lines(script);
  const std::vector<PythonBinding> bindings = bindings_of(script, places);
  const PythonGuards guards(script, places, bindings);
  const PythonReach reach(script, places, guards);
  const PythonValues values(script, places, bindings);
  const PythonFacts facts{program, script, places, bindings,
                          guards,  reach,  values, find_wrapper(script)};
  std::vector<Finding> findings = check_python_steps(facts);
  for (auto more :
       {check_python_saves(facts), check_python_shares(facts), check_python_gpus(facts)}) {
    std::move(more.begin(), more.end(), std::back_inserter(findings));
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  return findings;
}

}  // namespace hvd
