// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/rule_table.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"

namespace hvd {
namespace {

constexpr Severity kNote = Severity::kNote;
constexpr Severity kWarning = Severity::kWarning;
constexpr Severity kError = Severity::kError;

// In the order of docs/reference/lint.md: variables, the file, the header, the site, the body,
// Python.
constexpr std::array kRules = std::to_array<LintRule>({
    {"unknown-variable", kWarning, "A variable that nobody reads",
     "libraries ignore a name they do not know, so a slip is never reported; a note where nothing "
     "known is near",
     true},
    {"removed-variable", kError, "A variable that is no longer read",
     "it is copied from script to script for years after the library dropped it", true},
    {"renamed-variable", kError, "A variable with a new name",
     "the old name is ignored; a note where it is still read", true},
    {"deprecated-variable", kNote, "A variable that will go", "a newer one is in its place", false},
    {"variable-without-effect", kNote, "A variable of Horovod's that libhvd does not read",
     "a script for Horovod works as it is, and this line changes nothing", false},
    {"too-new-variable", kWarning, "A variable that the NCCL here does not know yet",
     "compared with the libnccl that the loader finds", false},
    {"set-by-hvdrun", kWarning, "A variable that hvdrun sets for each rank",
     "one line of a script gives all ranks the same value; RANK, WORLD_SIZE and their like, above "
     "hvdrun, are taken for another launch's",
     true},
    {"wrong-case", kError, "A value in the wrong case",
     "some values are compared letter by letter; another case counts as nothing, in silence", true},
    {"wrong-value", kError, "A value that the reader takes for nothing",
     "the default is used instead, most often in silence; numbers of libhvd's own fail hvd.init()",
     true},
    {"quoted-value", kError, "A value that arrives with its quotes",
     "quotes inside quotes become part of the value", false},
    {"conflicting-variables", kWarning, "Variables that undo each other",
     "one of them is without effect", false},
    {"wrong-device-kind", kError, "A device of the wrong kind",
     "NCCL_IB_HCA names ibverbs devices, NCCL_SOCKET_IFNAME and HVD_INTERFACE network interfaces",
     true},
    {"no-such-device", kError, "A device that is not on this node",
     "NCCL falls back to a slower network in silence", false},
    {"no-such-interface", kError, "An interface that is not on this node",
     "NCCL and Gloo stop at start", false},

    {"no-script", kError, "A file that is neither a job script nor a Python program",
     "empty, binary, for another scheduler or another interpreter", false},
    {"no-batch-script", kError, "A file that sbatch refuses as a whole",
     "the first line must be #! with an interpreter, and no line may end as on DOS", true},
    {"unread-directive", kError, "An #SBATCH line that sbatch does not read",
     "sbatch stops at the first command, and wants #SBATCH at the very beginning of a line; a "
     "warning "
     "for '# SBATCH', unless another line gives the option",
     true},
    {"bad-directive", kError, "An #SBATCH line that sbatch refuses",
     "an option that sbatch does not have, or one without its value", true},
    {"repeated-option", kWarning, "An option that is given twice", "the last one counts", false},

    {"bad-time", kError, "A time limit that sbatch refuses",
     "sbatch knows M, M:S, H:M:S and D-H:M:S", false},
    {"bad-constraint", kError, "A constraint that sbatch refuses",
     "features are joined by & | , and brackets; a blank ends the option", true},
    {"tasks-not-divisible", kWarning, "Tasks that do not spread evenly over the nodes",
     "some nodes get more ranks than others, and GPUs stay idle", false},
    {"tasks-disagree", kError, "Numbers of tasks that contradict each other",
     "--ntasks counts, and --ntasks-per-node becomes a limit", false},
    {"gpus-per-task", kWarning, "--gpus-per-task closes the device cgroup",
     "each task sees its own GPU alone; CUDA IPC between ranks fails or goes through host memory",
     true},
    {"gpu-bind", kWarning, "--gpu-bind closes the device cgroup",
     "any binding but none and closest-free hides the other ranks' GPUs from a task, as "
     "--gpus-per-task does",
     false},
    {"mixed-gpu-options", kError, "GPU options that exclude each other",
     "--gres=gpu and --gpus-per-node cannot be combined, nor typed with untyped GPUs", false},
    {"one-task-many-gpus", kWarning, "One task for several GPUs",
     "one rank drives one GPU: the others stay idle unless the program starts its own processes",
     false},
    {"tasks-and-gpus", kWarning, "Tasks and GPUs of a node that differ in number",
     "one rank drives one GPU: GPUs stay idle, or ranks would share one", false},
    {"memory-twice", kError, "Memory asked for in two ways",
     "--mem, --mem-per-cpu and --mem-per-gpu exclude each other", false},
    {"cpus-not-passed", kWarning, "--cpus-per-task that srun does not see",
     "srun of Slurm 22.05 to 23.02 does not take it from the job: each task gets one core", true},

    {"unknown-partition", kError, "A partition that the site does not have", "sbatch refuses it",
     true},
    {"constraint-mismatch", kError, "Partition and constraint for different nodes",
     "no node has both: the job is refused", false},
    {"unknown-qos", kError, "A QoS that the partition does not have",
     "sbatch refuses it, or the job waits for ever", true},
    {"time-over-limit", kError, "More time than the QoS or the partition gives",
     "the job is refused, or waits for ever with a reason such as QOSMaxWallDurationPerJobLimit",
     false},
    {"missing-account", kError, "No account where the site wants one", "the job is refused", false},
    {"missing-time", kWarning, "No time limit where the site's default is short",
     "the job is ended in the middle of its work; an error where the site refuses such a job",
     true},
    {"too-many-cores", kError, "More cores than a node has", "the job can never start", true},
    {"too-many-gpus", kError, "More GPUs than a node has", "the job can never start", false},
    {"below-minimum", kError, "A job smaller than its QoS takes", "the job is refused", false},
    {"too-many-nodes", kError, "More nodes than the partition gives", "the job can never start",
     false},
    {"idle-gpus", kNote, "GPUs of the node that the job does not ask for",
     "fewer tasks than GPUs, where nodes are charged as a whole", false},
    {"missing-directive", kWarning, "A line that the site wants in each header",
     "such as --hint=nomultithread: without it two tasks share a core's threads", true},
    {"forbidden-option", kError, "An option that the site does not allow",
     "such as -w at TACC, where jobs that name nodes are deleted", true},
    {"gpu-option-style", kWarning, "GPUs asked for in another way than the site's",
     "where GPUs come with the node, --gres is refused", false},
    {"wrong-account", kError, "An account that does not fit the partition",
     "hours are given per kind of GPU, such as @v100, @a100, @h100", true},
    {"module-order", kError, "A module loaded in the wrong order",
     "arch/... changes which modules there are: it comes first", false},
    {"module-mismatch", kError, "A module for another kind of node",
     "such as arch/a100 with -C h100", true},
    {"missing-module", kWarning, "A module that the nodes need",
     "without it programs for another kind of GPU are found", true},
    {"live-cluster", kWarning, "What the cluster as it is now has against the job",
     "asked on a machine of the script's site alone; a note where only the site file says "
     "otherwise",
     false},
    {"retired-site", kNote, "A site that is gone", "the script can run nowhere as it is", false},

    {"hidden-gpus", kError, "Fewer GPUs shown than a node has ranks",
     "one CUDA_VISIBLE_DEVICES for all tasks leaves several ranks with one GPU", true},
    {"too-many-threads", kWarning, "More OpenMP threads than cores of a task",
     "OMP_NUM_THREADS above --cpus-per-task: threads wait for each other", true},
    {"alt-read-network", kWarning, "alt_read without its network option",
     "FI_CXI_RDZV_PROTO=alt_read needs srun --network=disable_rdzv_get", false},
    {"launch-beside-slurm", kWarning, "A launcher that counts for itself in a job of several nodes",
     "hvdrun -np starts all ranks on one node; mpirun -np and horovodrun -H repeat by hand what "
     "Slurm knows: a note where they do what was asked for",
     false},
    {"missing-step-flag", kWarning, "A step without the option that the site's variables need",
     "hvdrun leaves them unset, since the tasks cannot know how their srun was typed", true},
    {"nested-launch", kError, "A launcher in the tasks of another",
     "srun torchrun --nproc_per_node=4 or srun hvdrun -np 4 with several tasks: each starts a "
     "world "
     "of its own",
     false},
    {"step-too-big", kError, "A step with more tasks or nodes than the job",
     "srun -n 16 in a job of 12 tasks is refused; a warning where cores may be left", false},
    {"no-launch", kNote, "A job with tasks that starts none",
     "the batch script itself runs once, on the first node", false},
    {"output-folder", kNote, "A folder of the output that was not found",
     "Slurm opens the output before the script begins, and ends the job without a word (ExitCode "
     "0:53) where the folder is not there; looked for from here and beside the script",
     false},

    {"no-init", kError, "hvd is asked before init()",
     "neither the program nor the modules beside it call hvd.init()", false},
    {"no-broadcast", kError, "Weights that no rank sends to the others",
     "a distributed optimizer, and neither a broadcast nor hvd.Checkpoints.resume(), elastic "
     "training or DistributedDataParallel: ranks start with different weights and never agree; a "
     "note where a seed or a file may make them equal",
     false},
    {"saved-by-all", kError, "A file that all ranks write",
     "torch.save, model.save, tf.train.Checkpoint and their like, and pickle, numpy and open() of "
     "weights, where no condition asks for the rank; a note where nothing in the file calls it, or "
     "where it may be no model or no file",
     false},
    {"unsplit-data", kWarning, "A DataLoader that gives each rank all the data",
     "shuffle=True without a sampler, over a dataset that does not depend on the rank; a note "
     "where "
     "another loader has a sampler",
     false},
    {"sampler-without-rank", kError, "A DistributedSampler that is not told the rank",
     "it asks torch.distributed for rank and size, which the program does not start", false},
    {"gpu-by-rank", kError, "A GPU chosen by rank()",
     "set_device(), .cuda(), .to(), device= and CUDA_VISIBLE_DEVICES; local_rank() counts the "
     "ranks "
     "of a node",
     false},
    {"unscaled-rate", kNote, "A learning rate that does not know the number of ranks",
     "the batch grows with the ranks; many optimizers want a larger rate with it", false},
    {"not-judged", kNote, "Something that the text does not show",
     "a program that imports neither hvd nor horovod, one that was not found, data that is split "
     "in "
     "a way that is not seen",
     false},
});

}  // namespace

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case kNote:
      return "note";
    case kWarning:
      return "warning";
    case kError:
      return "error";
  }
  return "";
}

bool has_fault(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& one) { return one.severity != Severity::kNote; });
}

std::span<const LintRule> lint_rules() { return kRules; }

const LintRule& lint_rule(std::string_view id) {
  for (const LintRule& rule : kRules) {
    if (rule.id == id) return rule;
  }
  check_failed("every finding's rule is in the table", std::string(id).c_str(), 0);
}

}  // namespace hvd
