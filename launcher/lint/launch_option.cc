// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/lint/sbatch_file.h"
#include "launcher/options/command_table.h"

namespace hvd {
namespace {

/// Options of the launchers that are not ours, where the usual rule (see values_behind) is wrong.
struct OptionRow {
  std::string_view launchers;  ///< Separated by spaces, as are the names.
  std::string_view names;      ///< Without dashes.
  int values = 0;
};

constexpr OptionRow kRows[] = {
    {"mpirun mpiexec", "mca gmca prtemca pmixmca env genv", 2},
    {"mpirun mpiexec",
     "bind-to map-by rank-by host hosts hostfile machinefile rankfile ppn perhost npernode iface "
     "launcher bootstrap wdir wd path envlist genvlist",
     1},
    {"mpirun mpiexec",
     "v q h V verbose quiet help version l prepend-rank tag-output timestamp-output oversubscribe "
     "nooversubscribe allow-run-as-root report-bindings display-map display-allocation nolocal "
     "bynode byslot bycore bind-to-core bind-to-socket bind-to-none pernode use-hwthread-cpus "
     "do-not-launch merge-stderr-to-stdout debug-daemons envall envnone genvall genvnone",
     0},
    {"horovodrun", "v verbose cb check-build gloo mpi tcp disable-cache autotune", 0},
    {"srun",
     "v verbose Q quiet l label u unbuffered O overcommit s oversubscribe overlap exact exclusive "
     "k no-kill K kill-on-bad-exit E preserve-env X disable-status H hold Z no-allocate pty "
     "contiguous spread-job",
     0},
};

bool names_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

/// The option of `hvdrun run` that is typed so; null: there is none.
const OptionDescription* option_of_hvdrun(std::string_view typed) {
  static const CommandDescription run = describe_command(*find_command("run"));
  for (const OptionDescription& option : run.options) {
    if (std::find(option.names.begin(), option.names.end(), typed) != option.names.end()) {
      return &option;
    }
  }
  return nullptr;
}

/// How many words behind this option may be its values.
int values_behind(std::string_view launcher, std::string_view option) {
  if (option.find('=') != std::string_view::npos) return 0;
  if (launcher == "hvdrun") {
    const OptionDescription* ours = option_of_hvdrun(option);
    if (ours != nullptr) return ours->takes_value() ? 1 : 0;
  }
  const std::size_t dashes = option.starts_with("--") ? 2 : 1;
  for (const OptionRow& row : kRows) {
    if (names_word(row.launchers, launcher) && names_word(row.names, option.substr(dashes))) {
      return row.values;
    }
  }
  if (option == "-np") return 1;  // else -n with the value p
  return dashes == 2 || option.size() == 2 ? 1 : 0;
}

}  // namespace

std::optional<std::string> launch_option(const LaunchLine& launch, std::string_view name,
                                         char letter) {
  const std::size_t program = launched_at(launch);
  for (std::size_t i = 1; i < program; ++i) {
    const std::string_view text = launch.words[i].text;
    if (!text.starts_with('-')) continue;
    const bool has_next = i + 1 < launch.words.size();
    if (text == name || (letter != 0 && text.size() == 2 && text[0] == '-' && text[1] == letter)) {
      return has_next ? launch.words[i + 1].text : std::string();
    }
    if (text.starts_with(name) && text.size() > name.size() && text[name.size()] == '=') {
      return std::string(text.substr(name.size() + 1));
    }
    if (letter != 0 && text.size() > 2 && text[0] == '-' && text[1] == letter) {
      return std::string(text.substr(2));
    }
  }
  return std::nullopt;
}

std::size_t launched_at(const LaunchLine& launch) {
  int values = 0;  // of the option before, that may follow: "--ntasks 4", "--mca btl ^openib"
  for (std::size_t i = 1; i < launch.words.size(); ++i) {
    const std::string_view text = launch.words[i].text;
    if (text == "--") return i;  // the program follows
    if (!text.starts_with('-')) {
      if (values-- == 0) return i;  // the program
      continue;
    }
    values = values_behind(launch.program, text);
  }
  return launch.words.size();
}

}  // namespace hvd
