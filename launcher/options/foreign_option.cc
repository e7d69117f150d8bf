// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/foreign_option.h"

#include <algorithm>

namespace hvd {
namespace {

constexpr ForeignOption kOfRun[] = {
    // Who runs, and where.
    {"num-proc num-processes ntasks", "write -np N"},
    {"npernode pernode ppn perhost nproc-per-node ntasks-per-node tasks-per-node num-gpus "
     "gpus-per-node",
     "write -np N for N ranks on this machine; a job of Slurm asks for its ranks itself: "
     "'hvdrun submit --ntasks-per-node N', or #SBATCH --ntasks-per-node=N"},
    {"nnodes num-nodes num-machines",
     "write --nodes N in a batch or salloc shell; without it all nodes of the job are used"},
    {"N",
     "srun's -N: write --nodes N, without -np, in a batch or salloc shell; Open MPI's, ranks of "
     "each node: write -np N for N ranks on this machine, 'hvdrun submit --ntasks-per-node N' for "
     "a job of Slurm"},
    {"H host hosts hostfile machinefile f w nodelist",
     "leave it out: ranks start on this machine or, in a job of Slurm, on its nodes; 'hvdrun "
     "submit' makes such a job"},
    {"p", "leave it out: there is no ssh, and so no port; a partition goes to 'hvdrun submit -p'"},
    {"ssh-port i ssh-identity-file",
     "leave it out: ranks start on this machine or through Slurm, never through ssh"},
    {"partition account A time walltime t qos constraint C mem exclusive job-name J",
     "leave it out: it is the job's; 'hvdrun submit' takes it, and #SBATCH lines do"},
    {"gpus G gres gpus-per-task multi-gpu",
     "leave it out: each rank has a GPU of those that are visible; 'hvdrun submit --gpus N' asks "
     "Slurm for them"},
    {"min-num-proc", "write --min-np N"},
    {"max-num-proc", "write --max-np N"},
    {"elastic-timeout", "leave it out: --loss-timeout S says how long ranks wait for one another"},
    {"blacklist-cooldown-range",
     "leave it out: a node that has lost most of its ranks is not used any more"},
    {"reset-limit max-restarts",
     "leave it out: hvd.elastic.run(reset_limit=...) has it, in the program"},
    {"master-addr master-port node-rank local-addr standalone rdzv-*",
     "leave it out: the ranks find each other by themselves"},
    // Places.
    {"bind-to bind-to-core bind-to-socket cpu-bind binding-args thread-affinity",
     "write --bind cores, numa, socket or none, or --bind map: with CPU lists"},
    {"map-by rank-by distribution",
     "leave it out: --bind says which cores the ranks have, and 'hvdrun explain' where they are"},
    {"cpus-per-task cpus-per-proc cpus-per-node", "write --cpus-per-rank N"},
    {"use-hwthread-cpus", "write --smt"},
    {"oversubscribe overcommit O", "leave it out: -np may be larger than the number of cores"},
    // Environment and settings.
    {"env genv envlist genvlist envall genvall envnone export",
     "write -x NAME=VALUE, or -x NAME for the shell's value"},
    {"start-timeout", "write -x HVD_START_TIMEOUT_SECONDS=S; horovodrun takes it as it is"},
    {"network-interface network-interfaces",
     "write -x HVD_INTERFACE=NAME; horovodrun takes it as it is"},
    {"fusion-threshold-mb",
     "write -x HVD_FUSION_THRESHOLD=BYTES, 1048576 for each MB; horovodrun takes it as it is"},
    {"timeline-filename", "write -x HVD_TIMELINE=F; horovodrun takes it as it is"},
    {"timeline-mark-cycles", "write -x HVD_TIMELINE_MARK_BATCHES=1; horovodrun takes it as it is"},
    {"no-stall-check", "write -x HVD_STALL_CHECK_TIME_SECONDS=0; horovodrun takes it as it is"},
    {"stall-check", "leave it out: a stall is reported, with who is missing"},
    {"stall-check-shutdown-time-seconds",
     "write -x HVD_STALL_SHUTDOWN_TIME_SECONDS=S; horovodrun takes it as it is"},
    {"stall-check-warning-time-seconds",
     "write -x HVD_STALL_CHECK_TIME_SECONDS=S; horovodrun takes it as it is"},
    {"log-level", "write -x HVD_LOG=debug, or error, warning, info; horovodrun takes it as it is"},
    {"config-file", "start the program with horovodrun, which reads such a file"},
    {"cycle-time-ms", "leave it out: there is no cycle, operations start as they come"},
    {"disable-cache", "leave it out: nothing about hosts is kept between runs"},
    {"cache-capacity", "leave it out: what ranks agreed on is kept without a limit"},
    {"autotune* no-autotune",
     "leave it out: there is nothing to tune, batches form from what is ready"},
    {"torus-allreduce no-torus-allreduce",
     "leave it out: NCCL chooses how an allreduce goes between GPUs"},
    {"hierarchical-* no-hierarchical-*",
     "leave it out: on several nodes reductions always have two levels"},
    {"num-nccl-streams", "leave it out: each process set has one stream of its own on a GPU"},
    {"mpi gloo tcp jsrun", "leave it out: there is one way to start, with and without MPI"},
    {"mca gmca prtemca pmixmca mpi-args",
     "leave it out: mpirun is not called; 'mpirun -np N python train.py' works without hvdrun, "
     "too"},
    {"allow-run-as-root", "leave it out: root may run hvdrun"},
    {"kill-on-bad-exit K wait W",
     "leave it out: when one rank fails the others are ended, --grace S seconds later"},
    // Output, and the program.
    {"output output-filename o error e log-dir tee redirects", "write --output-dir DIR"},
    {"tag-output prepend-rank label l", "write --prefix"},
    {"timestamp-output prefix-timestamp prefix-with-timestamp prefix-output-with-timestamp "
     "log-with-timestamp",
     "write --timestamp"},
    {"display display-map display-allocation do-not-launch test-only", "write --dry-run"},
    {"check-build cb", "write hvdrun check --build"},
    {"wdir wd cwd chdir D", "type cd DIR before: ranks start in the folder where hvdrun is typed"},
    {"m module", "write python -m MODULE as the program"},
    {"no-python", "leave it out: hvdrun starts any program"},
};

constexpr ForeignOption kOfJobs[] = {
    {"np num-proc num-processes",
     "write --gpus N for one rank on each GPU, or --nodes N --ntasks-per-node N"},
    {"tasks-per-node npernode pernode ppn perhost nproc-per-node", "write --ntasks-per-node N"},
    {"nnodes num-nodes num-machines", "write --nodes N"},
    {"walltime", "write -t HH:MM:SS"},
    {"cpus-per-rank", "write --cpus-per-task N"},
    {"host hosts hostfile machinefile",
     "leave it out: Slurm chooses the nodes, among those of --nodelist where that is typed"},
};

/// "timeline-filename" of "--timeline_filename=F".
std::string bare_name(std::string_view word) {
  std::string name(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  name.resize(std::min(name.find('='), name.size()));
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool has_name(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    const std::string_view one = names.substr(0, end);
    if (one == name) return true;
    if (one.ends_with('*') && name.starts_with(one.substr(0, one.size() - 1))) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

std::string_view remedy_of(std::string_view name, std::string_view command) {
  for (const ForeignOption& option : foreign_options(command)) {
    if (has_name(option.names, name)) return option.remedy;
  }
  return "";
}

/// True for what cannot be the rest of a name, as "merge-stderr-to-stdout" has it after its m.
bool is_value(std::string_view text) {
  constexpr std::string_view kFirst = "0123456789/.";
  return kFirst.find(text[0]) != std::string_view::npos ||
         text.find_first_of(":,") != std::string_view::npos;
}

}  // namespace

std::span<const ForeignOption> foreign_options(std::string_view command) {
  if (command.empty() || command == "run" || command == "explain") return kOfRun;
  if (command == "header" || command == "script" || command == "submit") return kOfJobs;
  return {};
}

std::string_view foreign_remedy(std::string_view word, std::string_view command) {
  const std::string name = bare_name(word);
  return name.size() == 1 && word.starts_with("--") ? "" : remedy_of(name, command);
}

std::string_view foreign_letter_remedy(std::string_view word, std::string_view command) {
  const bool has_letter = word.size() > 2 && word[0] == '-' && word[1] != '-';
  return has_letter && is_value(word.substr(2)) ? remedy_of(word.substr(1, 1), command) : "";
}

}  // namespace hvd
