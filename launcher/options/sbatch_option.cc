// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/sbatch_option.h"

#include <array>

#include "launcher/options/nearest.h"

namespace hvd {
namespace {

constexpr OptionArgument kNone = OptionArgument::kNone;
constexpr OptionArgument kRequired = OptionArgument::kRequired;
constexpr OptionArgument kOptional = OptionArgument::kOptional;
constexpr SbatchUse kNewer = SbatchUse::kNewer;
constexpr SbatchUse kBatch = SbatchUse::kBatch;
constexpr SbatchUse kAboutSbatch = SbatchUse::kProgram;

// sbatch(1) of Slurm 22.05 to 25.05.
constexpr auto kSbatchOptions = std::to_array<SbatchOption>({
    {"account", 'A', kRequired},
    {"acctg-freq", 0, kRequired},
    {"array", 'a', kRequired, kBatch},
    {"batch", 0, kRequired, kBatch},
    {"bb", 0, kRequired},
    {"bbf", 0, kRequired},
    {"begin", 'b', kRequired},
    {"chdir", 'D', kRequired},
    {"cluster-constraint", 0, kRequired},
    {"clusters", 'M', kRequired},
    {"comment", 0, kRequired},
    {"consolidate-segments", 0, kNone, kNewer},
    {"constraint", 'C', kRequired},
    {"container", 0, kRequired},
    {"container-id", 0, kRequired, kNewer},
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
    {"error", 'e', kRequired, kBatch},
    {"exclude", 'x', kRequired},
    {"exclusive", 0, kOptional},
    {"export", 0, kRequired, kBatch},
    {"export-file", 0, kRequired, kBatch},
    {"extra", 0, kRequired, kNewer},
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
    {"help", 'h', kNone, kAboutSbatch},
    {"hint", 0, kRequired},
    {"hold", 'H', kNone},
    {"ignore-pbs", 0, kNone, kBatch},
    {"input", 'i', kRequired, kBatch},
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
    {"no-requeue", 0, kNone, kBatch},
    {"nodefile", 'F', kRequired},
    {"nodelist", 'w', kRequired},
    {"nodes", 'N', kRequired},
    {"ntasks", 'n', kRequired},
    {"ntasks-per-core", 0, kRequired},
    {"ntasks-per-gpu", 0, kRequired},
    {"ntasks-per-node", 0, kRequired},
    {"ntasks-per-socket", 0, kRequired},
    {"ntasks-per-tres", 0, kRequired, kNewer},
    {"oom-kill-step", 0, kOptional, kNewer},
    {"open-mode", 0, kRequired, kBatch},
    {"output", 'o', kRequired, kBatch},
    {"overcommit", 'O', kNone},
    {"oversubscribe", 's', kOptional},
    {"parsable", 0, kNone, kBatch},
    {"partition", 'p', kRequired},
    {"power", 0, kRequired},
    {"prefer", 0, kRequired},
    {"priority", 0, kRequired},
    {"profile", 0, kRequired},
    {"propagate", 0, kOptional, kBatch},
    {"qos", 'q', kRequired},
    {"quiet", 'Q', kNone},
    {"reboot", 0, kNone},
    {"requeue", 0, kOptional, kBatch},
    {"reservation", 0, kRequired},
    {"resv-ports", 0, kOptional, kNewer},
    {"segment", 0, kRequired, kNewer},
    {"signal", 0, kRequired},
    {"sockets-per-node", 0, kRequired},
    {"spread-job", 0, kNone},
    {"spread-segments", 0, kNone, kNewer},
    {"stepmgr", 0, kNone, kNewer},
    {"switches", 0, kRequired},
    {"test-only", 0, kNone, kAboutSbatch},
    {"thread-spec", 0, kRequired},
    {"threads-per-core", 0, kRequired},
    {"time", 't', kRequired},
    {"time-min", 0, kRequired},
    {"tmp", 0, kRequired},
    {"tres-bind", 0, kRequired, kNewer},
    {"tres-per-task", 0, kRequired, kNewer},
    {"uid", 0, kRequired},
    {"usage", 0, kNone, kAboutSbatch},
    {"use-min-nodes", 0, kNone},
    {"verbose", 'v', kNone},
    {"version", 'V', kNone, kAboutSbatch},
    {"wait", 'W', kNone, kBatch},
    {"wait-all-nodes", 0, kRequired},
    {"wckey", 0, kRequired},
    {"wrap", 0, kRequired, kAboutSbatch},
});

/// The one option whose name begins so, among those of `newest` and before; null: none or several.
const SbatchOption* only_beginning(std::string_view name, bool newest) {
  const SbatchOption* beginning = nullptr;
  for (const SbatchOption& option : kSbatchOptions) {
    if (!option.name.starts_with(name) || (!newest && option.use == kNewer)) continue;
    if (beginning != nullptr) return nullptr;
    beginning = &option;
  }
  return beginning;
}

}  // namespace

std::span<const SbatchOption> sbatch_options() { return kSbatchOptions; }

const SbatchOption* find_sbatch_option(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const SbatchOption& option : kSbatchOptions) {
    if (option.name == name) return &option;
  }
  // "--res" was --reservation before --resv-ports came.
  const SbatchOption* beginning = only_beginning(name, true);
  return beginning != nullptr ? beginning : only_beginning(name, false);
}

const SbatchOption* find_sbatch_letter(char letter) {
  if (letter == 0) return nullptr;
  for (const SbatchOption& option : kSbatchOptions) {
    if (option.letter == letter) return &option;
  }
  return nullptr;
}

std::string_view nearest_sbatch_option(std::string_view typed) {
  std::string_view found;
  std::size_t fewest = typed.size() < 5 ? 2 : 3;
  for (const SbatchOption& option : kSbatchOptions) {
    const std::size_t distance = edit_distance(typed, option.name);
    if (distance >= fewest) continue;
    fewest = distance;
    found = option.name;
  }
  return found;
}

}  // namespace hvd
