// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/job_name.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <vector>

#include "base/format.h"
#include "base/process_state.h"
#include "bootstrap/rendezvous.h"
#include "topology/launch_source.h"

namespace hvd {
namespace {

/// The variables of a launcher that name one job, on all its nodes alike.
struct NameSource {
  std::string_view launcher;
  std::string_view prefix;
  std::string_view mark;  ///< See launcher_mark().
  /// The first must be there; the others may be missing.
  std::array<std::string_view, 4> variables;
};

// FLUX_URI and PMIX_SERVER_URI are not names: each node has its own. Nor is
// TORCHELASTIC_RESTART_COUNT: each agent counts the failures that it saw itself, and all workers of
// a round have ended before the next.
constexpr std::array<NameSource, 8> kNameSources{{
    {kSlurmStep,
     "slurm",
     "",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "SLURM_CLUSTER_NAME"}},
    {"Open MPI", "openmpi", "", {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "", ""}},
    {"Intel MPI", "intelmpi", "", {"I_MPI_HYDRA_UUID", "", "", ""}},
    {"torchrun",
     "torchrun",
     "TORCHELASTIC_RUN_ID",
     {"MASTER_PORT", "MASTER_ADDR", "TORCHELASTIC_RUN_ID", ""}},
    {kByHand.name, "env", "", {"MASTER_PORT", "MASTER_ADDR", "", ""}},
    {"Flux", "flux", "", {"FLUX_JOB_ID", "FLUX_JOB_ID_PATH", "FLUX_ENCLOSING_ID", "SLURM_JOB_ID"}},
    {"PALS", "pals", "", {"PALS_APID", "", "", ""}},
    {kPmi, "pals", "", {"PALS_APID", "", "", ""}},
}};

constexpr std::string_view kMpich = "MPICH";
constexpr std::string_view kMpichMark = "MPI_LOCALRANKID";
constexpr std::size_t kStemBytes = 120;

const NameSource* source_of(const Identity& identity) {
  const std::string launcher = launcher_of(identity);
  for (const NameSource& source : kNameSources) {
    if (source.launcher == launcher) return &source;
  }
  return nullptr;
}

/// FNV-1a, 64 bits: the same on every rank, whatever its C++ library.
std::string hash_hex(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return format_text("{:016x}", hash);
}

/// Sets the span of the job, and why.
void find_span(const Environment& environment, const Identity& identity, const NameSource* source,
               JobName& name) {
  const auto address = environment.get("MASTER_ADDR");
  const bool uses_address = source != nullptr && source->variables.front() == "MASTER_PORT";
  if (uses_address && address && is_loopback_name(*address)) {
    name.span = JobSpan::kOneNetwork;
    name.reason = format_text("MASTER_ADDR is {}", *address);
  } else if (identity.size > 0 && identity.local_size == identity.size) {
    name.span = JobSpan::kOneHost;
    name.reason = format_text("all {} ranks are local", identity.size);
  }
}

/// Slurm has two names for each of its numbers.
std::optional<std::string> value_of(const Environment& environment, std::string_view variable) {
  auto value = environment.get(variable);
  if (value || !variable.starts_with("SLURM_")) return value;
  if (variable == "SLURM_JOB_ID") return environment.get("SLURM_JOBID");
  if (variable == "SLURM_STEP_ID") return environment.get("SLURM_STEPID");
  return value;
}

/// Adds what the launcher says of the job: to the name for people, and, in full, to its hash.
Status add_variables(const Environment& environment, const NameSource& source, std::string& stem,
                     std::string& full) {
  for (const std::string_view variable : source.variables) {
    if (variable.empty()) continue;
    const auto value = value_of(environment, variable);
    if (!value && variable == source.variables.front()) {
      return error(Code::kUnsupported, "{} started the ranks, but {} is not set", source.launcher,
                   variable);
    }
    if (!value) continue;
    stem += "." + value->substr(0, 40);
    full += format_text("{}={}\n", variable, *value);
  }
  // Clusters of one name count jobs alike; a part of a heterogeneous job lists its own nodes only.
  const auto nodes = environment.get("SLURM_STEP_NODELIST");
  if (nodes && source.launcher == kSlurmStep && !environment.has("SLURM_HET_SIZE")) {
    full += format_text("nodes={}\n", *nodes);
  }
  return Status::ok();
}

/// Whether the process was started with the variable; nothing: its environment is closed to us.
std::optional<bool> was_started_with(long pid, std::string_view variable) {
  std::ifstream file(format_text("/proc/{}/environ", pid), std::ios::binary);
  if (!file) return std::nullopt;
  const std::string start = format_text("{}=", variable);
  std::string entry;
  while (std::getline(file, entry, '\0')) {
    if (entry.starts_with(start)) return true;
  }
  if (file.bad()) return std::nullopt;
  return false;
}

}  // namespace

std::string_view place_within(JobSpan span, std::string_view machine) {
  if (span == JobSpan::kAnywhere) return {};
  // The number of this boot of the host comes first.
  return span == JobSpan::kOneHost ? machine.substr(0, machine.find('/')) : machine;
}

bool is_loopback_name(std::string_view host) {
  return host.starts_with("localhost") || host.starts_with("127.") || host == "::1" ||
         host == "[::1]" || host == "ip6-localhost" || host == "ip6-loopback";
}

std::string_view launcher_mark(const Identity& identity) {
  if (launcher_of(identity) == kMpich) return kMpichMark;
  const NameSource* const source = source_of(identity);
  return source == nullptr ? std::string_view() : source->mark;
}

std::string launcher_process(std::string_view mark) {
  auto stat = stat_of(::getpid());
  constexpr int kMostAncestors = 256;
  for (int i = 0; stat && stat->parent > 0 && i < kMostAncestors; ++i) {
    const long pid = stat->parent;
    stat = stat_of(pid);
    const auto marked = was_started_with(pid, mark);
    if (!stat || !marked || *marked) continue;
    struct stat name_space {};
    if (::stat("/proc/self/ns/pid", &name_space) != 0) name_space.st_ino = 0;
    return format_text("{}.{}.{}", pid, stat->start, name_space.st_ino);
  }
  return {};
}

Result<JobName> name_job(const Environment& environment, const Identity& identity,
                         const ProcessPlace& place) {
  const std::string launcher = launcher_of(identity);
  const NameSource* const source = source_of(identity);
  JobName name;
  std::string full = launcher + "\n";
  find_span(environment, identity, source, name);
  if (source != nullptr) {
    name.stem = source->prefix;
    HVD_TRY(add_variables(environment, *source, name.stem, full));
  } else if (launcher == kMpich) {
    // mpiexec names its job nowhere; on one host its proxy, which started the ranks, does.
    if (name.span == JobSpan::kAnywhere || place.launcher.empty()) {
      return error(Code::kUnsupported,
                   "MPICH's mpiexec gives no name to a job over several hosts; use hvdrun or srun");
    }
    name.stem = "mpich";
  } else {
    return error(Code::kUnsupported, "{} names no job for a rendezvous file", launcher);
  }
  full += format_text("place={}\n", place_within(name.span, place.machine));
  // Several agents on one machine are several launchers of one job.
  const bool one_launcher = identity.size > 0 && identity.local_size == identity.size;
  if (one_launcher) full += format_text("launcher={}\n", place.launcher);
  name.stem = safe_file_name(name.stem.substr(0, kStemBytes));
  name.scope = hash_hex(full);
  return name;
}

}  // namespace hvd
