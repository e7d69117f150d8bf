// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/sbatch_option.h"

#include <array>

#include "launcher/lint/nearest_word.h"

namespace hvd {
namespace {

constexpr OptionArgument kNone = OptionArgument::kNone;
constexpr OptionArgument kRequired = OptionArgument::kRequired;
constexpr OptionArgument kOptional = OptionArgument::kOptional;

// sbatch(1) of Slurm 22.05 to 25.05.
constexpr auto kSbatchOptions = std::to_array<SbatchOption>({
    {"account", 'A', kRequired},
    {"acctg-freq", 0, kRequired},
    {"array", 'a', kRequired},
    {"batch", 0, kRequired},
    {"bb", 0, kRequired},
    {"bbf", 0, kRequired},
    {"begin", 'b', kRequired},
    {"chdir", 'D', kRequired},
    {"cluster-constraint", 0, kRequired},
    {"clusters", 'M', kRequired},
    {"comment", 0, kRequired},
    {"consolidate-segments", 0, kNone},
    {"constraint", 'C', kRequired},
    {"container", 0, kRequired},
    {"container-id", 0, kRequired},
    {"contiguous", 0, kNone},
    {"core-spec", 'S', kRequired},
    {"cores-per-socket", 0, kRequired},
    {"cpu-freq", 0, kRequired},
    {"cpus-per-gpu", 0, kRequired},
    {"cpus-per-task", 'c', kRequired},
    {"deadline", 0, kRequired},
    {"delay-boot", 0, kRequired},
    {"dependency", 'd', kRequired},
    {"distribution", 'm', kRequired},
    {"error", 'e', kRequired},
    {"exclude", 'x', kRequired},
    {"exclusive", 0, kOptional},
    {"export", 0, kRequired},
    {"export-file", 0, kRequired},
    {"extra", 0, kRequired},
    {"extra-node-info", 'B', kRequired},
    {"get-user-env", 0, kOptional},
    {"gid", 0, kRequired},
    {"gpu-bind", 0, kRequired},
    {"gpu-freq", 0, kRequired},
    {"gpus", 'G', kRequired},
    {"gpus-per-node", 0, kRequired},
    {"gpus-per-socket", 0, kRequired},
    {"gpus-per-task", 0, kRequired},
    {"gres", 0, kRequired},
    {"gres-flags", 0, kRequired},
    {"help", 'h', kNone},
    {"hint", 0, kRequired},
    {"hold", 'H', kNone},
    {"ignore-pbs", 0, kNone},
    {"input", 'i', kRequired},
    {"job-name", 'J', kRequired},
    {"kill-on-invalid-dep", 0, kRequired},
    {"licenses", 'L', kRequired},
    {"mail-type", 0, kRequired},
    {"mail-user", 0, kRequired},
    {"mcs-label", 0, kRequired},
    {"mem", 0, kRequired},
    {"mem-bind", 0, kRequired},
    {"mem-per-cpu", 0, kRequired},
    {"mem-per-gpu", 0, kRequired},
    {"mincpus", 0, kRequired},
    {"network", 0, kRequired},
    {"nice", 0, kOptional},
    {"no-kill", 'k', kOptional},
    {"no-requeue", 0, kNone},
    {"nodefile", 'F', kRequired},
    {"nodelist", 'w', kRequired},
    {"nodes", 'N', kRequired},
    {"ntasks", 'n', kRequired},
    {"ntasks-per-core", 0, kRequired},
    {"ntasks-per-gpu", 0, kRequired},
    {"ntasks-per-node", 0, kRequired},
    {"ntasks-per-socket", 0, kRequired},
    {"ntasks-per-tres", 0, kRequired},
    {"oom-kill-step", 0, kOptional},
    {"open-mode", 0, kRequired},
    {"output", 'o', kRequired},
    {"overcommit", 'O', kNone},
    {"oversubscribe", 's', kOptional},
    {"parsable", 0, kNone},
    {"partition", 'p', kRequired},
    {"power", 0, kRequired},
    {"prefer", 0, kRequired},
    {"priority", 0, kRequired},
    {"profile", 0, kRequired},
    {"propagate", 0, kOptional},
    {"qos", 'q', kRequired},
    {"quiet", 'Q', kNone},
    {"reboot", 0, kNone},
    {"requeue", 0, kOptional},
    {"reservation", 0, kRequired},
    {"resv-ports", 0, kOptional},
    {"segment", 0, kRequired},
    {"signal", 0, kRequired},
    {"sockets-per-node", 0, kRequired},
    {"spread-job", 0, kNone},
    {"spread-segments", 0, kNone},
    {"stepmgr", 0, kNone},
    {"switches", 0, kRequired},
    {"test-only", 0, kNone},
    {"thread-spec", 0, kRequired},
    {"threads-per-core", 0, kRequired},
    {"time", 't', kRequired},
    {"time-min", 0, kRequired},
    {"tmp", 0, kRequired},
    {"tres-bind", 0, kRequired},
    {"tres-per-task", 0, kRequired},
    {"uid", 0, kRequired},
    {"usage", 0, kNone},
    {"use-min-nodes", 0, kNone},
    {"verbose", 'v', kNone},
    {"version", 'V', kNone},
    {"wait", 'W', kNone},
    {"wait-all-nodes", 0, kRequired},
    {"wckey", 0, kRequired},
    {"wrap", 0, kRequired},
});

}  // namespace

const SbatchOption* find_sbatch_option(std::string_view name) {
  const SbatchOption* beginning = nullptr;
  int count = 0;
  for (const SbatchOption& option : kSbatchOptions) {
    if (option.name == name) return &option;
    if (name.empty() || !option.name.starts_with(name)) continue;
    beginning = &option;
    ++count;
  }
  return count == 1 ? beginning : nullptr;
}

const SbatchOption* find_sbatch_letter(char letter) {
  if (letter == 0) return nullptr;
  for (const SbatchOption& option : kSbatchOptions) {
    if (option.letter == letter) return &option;
  }
  return nullptr;
}

std::string_view nearest_sbatch_option(std::string_view typed) {
  std::array<std::string_view, kSbatchOptions.size()> names{};
  for (std::size_t i = 0; i < kSbatchOptions.size(); ++i) names[i] = kSbatchOptions[i].name;
  return nearest_word(typed, names, typed.size() < 5 ? 1 : 2);
}

}  // namespace hvd
