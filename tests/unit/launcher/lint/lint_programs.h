// SPDX-License-Identifier: Apache-2.0
// What lint finds in Python programs that tests write.
#pragma once

#include <string>
#include <vector>

#include "launcher/lint/python_program.h"

namespace hvd {

/// "error:3 note:5": what a rule finds in a program, with the lines.
inline std::string seen(const std::string& rule, const std::string& text,
                        const std::vector<std::string>& modules = {}) {
  PythonProgram program{parse_python(text), {}};
  for (const std::string& module : modules) program.modules.push_back(parse_python(module));
  std::string all;
  for (const Finding& finding : lint_python(program)) {
    if (finding.rule != rule) continue;
    all += (all.empty() ? "" : " ") + std::string(severity_name(finding.severity)) + ":" +
           std::to_string(finding.line);
  }
  return all;
}

inline constexpr const char* kImports =
    "import torch\nimport horovod.torch as hvd\nfrom torch.utils.data import DataLoader\n"
    "from torch.utils.data.distributed import DistributedSampler\n";  // lines 1 to 4

/// A program that does everything right; what a case adds begins on line 9.
inline const std::string& right_program() {
  static const std::string kText =
      std::string(kImports) +
      "hvd.init()\n"
      "optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * hvd.size())\n"
      "optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())\n"
      "hvd.broadcast_parameters(model.state_dict(), root_rank=0)\n";
  return kText;
}

struct PythonCase {
  const char* text;
  const char* found;
};

}  // namespace hvd
