// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/other_job.h"

#include <array>
#include <set>
#include <sstream>

#include "base/format.h"
#include "base/text_file.h"

namespace hvd {
namespace {

enum class Form {
  kFile,   ///< Names a file with a node at the beginning of each line, repeated per slot.
  kPairs,  ///< "node1 4 node2 4".
  kNone,   ///< Says nothing of nodes.
};

struct OtherScheduler {
  std::string_view name;
  std::string_view variable;
  Form form;
  std::string_view command;
};

/// Variables: qsub(1B) of PBS Professional and TORQUE; "Environment variables" of IBM Spectrum LSF;
/// OAR's user documentation; sge_pe(5); flux-environment(7).
constexpr std::array kSchedulers{
    OtherScheduler{"PBS", "PBS_NODEFILE", Form::kFile,
                   "mpiexec -n RANKS --hostfile \"$PBS_NODEFILE\" hvdrun PROGRAM"},
    OtherScheduler{"LSF", "LSB_MCPU_HOSTS", Form::kPairs,
                   "mpirun -np RANKS hvdrun PROGRAM (or jsrun, where the site has it)"},
    OtherScheduler{"OAR", "OAR_NODEFILE", Form::kFile,
                   "mpirun -np RANKS --hostfile \"$OAR_NODEFILE\" hvdrun PROGRAM"},
    OtherScheduler{"Grid Engine", "PE_HOSTFILE", Form::kFile, "mpirun -np RANKS hvdrun PROGRAM"},
    OtherScheduler{"Flux", "FLUX_URI", Form::kNone, "flux run -N NODES -n RANKS hvdrun PROGRAM"},
};

/// Distinct first words of lines.
int nodes_of_lines(const std::string& text) {
  std::set<std::string> nodes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    if (std::string node; words >> node) nodes.insert(node);
  }
  return static_cast<int>(nodes.size());
}

int nodes_of_pairs(const std::string& text) {
  std::set<std::string> nodes;
  std::istringstream words(text);
  for (std::string node, slots; words >> node; words >> slots) nodes.insert(node);
  return static_cast<int>(nodes.size());
}

int count_nodes(Form form, const std::string& value) {
  if (form == Form::kPairs) return nodes_of_pairs(value);
  if (form == Form::kNone) return 0;
  return nodes_of_lines(read_text_file(value).value_or(""));
}

}  // namespace

std::optional<OtherJob> read_other_job(const Environment& environment) {
  for (const OtherScheduler& scheduler : kSchedulers) {
    const std::string value = environment.get(scheduler.variable).value_or("");
    if (value.empty()) continue;
    return OtherJob{scheduler.name, scheduler.variable, scheduler.command,
                    count_nodes(scheduler.form, value)};
  }
  return std::nullopt;
}

std::string describe_other_job(const OtherJob& job) {
  const std::string nodes = job.nodes == 0 ? "" : format_text(" on {} nodes", job.nodes);
  return format_text("a job of {}{} ({})", job.scheduler, nodes, job.variable);
}

}  // namespace hvd
