// SPDX-License-Identifier: Apache-2.0
#include "base/settings.h"

#include <algorithm>
#include <array>
#include <limits>

namespace hvd {
namespace {

/// In the order of the page; the meaning is Markdown.
constexpr auto kSettings = std::to_array<Setting>({
    {.name = "HVD_LOG",
     .kind = SettingKind::kWords,
     .values = "error warning info debug bootstrap buckets device mpi nccl select staged "
               "stall timeline",
     .standard = "`warning`",
     .read_by = Reader::kLibhvd,
     .note = "words that nobody knows have no effect",
     .meaning = "a level (`error`, `warning`, `info`, `debug`), or categories, all lines of which "
                "are printed: `bootstrap` (how ranks meet), `buckets` (frozen buckets), `device` "
                "(GPUs), `mpi`, `nccl`, `select` (which way an operation takes), `staged` (GPU "
                "memory by way of the host), `stall` (who is missing), `timeline`; "
                "comma-separated, without blanks. Rank 0 warns of other words"},
    {.name = "HVD_BACKEND",
     .kind = SettingKind::kChoice,
     .values = "shm tcp mpi nccl staged",
     .standard = "any",
     .read_by = Reader::kLibhvd,
     .note = "hvd finds no such backend, which is an error",
     .meaning = "use this backend alone (`shm`, `tcp`, `mpi` for CPU memory; `nccl`, `staged` for "
                "GPU memory); an error where it cannot, or where ranks differ. `mpi`: see [use "
                "beside MPI](../how-to/use-beside-mpi.md)"},
    {.name = "HVD_MPI_LIBRARY",
     .kind = SettingKind::kPath,
     .standard = "found",
     .read_by = Reader::kLibhvd,
     .meaning = "path or name of the MPI library that `HVD_BACKEND=mpi` opens where the program "
                "has none; default: the launcher's family first"},
    {.name = "HVD_CUDA_LIBRARY",
     .kind = SettingKind::kPath,
     .standard = "`libcuda.so.1`",
     .read_by = Reader::kLibhvd,
     .meaning = "path or name of the library of NVIDIA's driver; loaded at the first tensor in GPU "
                "memory"},
    {.name = "HVD_HIP_LIBRARY",
     .kind = SettingKind::kPath,
     .standard = "found",
     .read_by = Reader::kLibhvd,
     .meaning = "a build for AMD GPUs: path or name of the HIP library; default: the one that the "
                "process has loaded, else `libamdhip64.so`"},
    {.name = "HVD_NCCL_LIBRARY",
     .kind = SettingKind::kPath,
     .standard = "found",
     .read_by = Reader::kLibhvd,
     .meaning = "path or name of the NCCL (or RCCL) library; one that the process has loaded "
                "already comes first, and without either `libnccl.so.2` is looked for"},
    {.name = "HVD_NCCL_REGISTER",
     .kind = SettingKind::kSwitch,
     .lowest = 0,
     .highest = 1,
     .initial = 1,
     .read_by = Reader::kLibhvd,
     .fails_start = true,
     .meaning = "`0` (on all ranks): the buckets that small tensors go through are plain GPU "
                "memory, not registered with NCCL; slower, for a system where registration makes "
                "trouble"},
    {.name = "HVD_GPU_GRAPHS",
     .kind = SettingKind::kSwitch,
     .lowest = 0,
     .highest = 1,
     .initial = 0,
     .read_by = Reader::kLibhvd,
     .fails_start = true,
     .meaning = "`1`: the launches that pack and unpack a frozen bucket are captured in CUDA "
                "graphs and replayed each step (see [GPU "
                "plane](../explanation/gpu-plane.md#graphs)). Off by default: it has been tried "
                "with stand-ins of the driver and NCCL only, not on a GPU. Each rank may choose "
                "for itself"},
    {.name = "HVD_INTERFACE",
     .kind = SettingKind::kText,
     .standard = "found",
     .read_by = Reader::kLibhvd,
     .meaning = "interfaces, comma-separated, under which other hosts may reach this one "
                "(`ib0,ib1`); default: all that are up, the fastest first, but not those of "
                "containers and virtual machines (`docker0`, `virbr*`, `veth*`, ...); see [How "
                "bytes move](../explanation/data-plane.md#sockets-and-networks)"},
    {.name = "HVD_BOOTSTRAP_INTERFACE",
     .kind = SettingKind::kText,
     .standard = "`HVD_INTERFACE`, else the site's",
     .read_by = Reader::kLibhvd,
     .meaning = "interfaces, comma-separated, under which the ranks look for rank 0 first when "
                "they start; the others follow. Where neither is set, hvdrun sets it on several "
                "nodes from `bootstrap_if` of the [site](site-schema.md)"},
    {.name = "HVD_TCP_SOCKETS",
     .kind = SettingKind::kInteger,
     .lowest = 1,
     .highest = 16,
     .unit = "connections",
     .standard = "1, or to use every NIC",
     .read_by = Reader::kLibhvd,
     .fails_start = true,
     .meaning = "TCP connections for each lane and pair of nodes; that of rank 0 counts"},
    {.name = "HVD_ARENA_BYTES",
     .kind = SettingKind::kBytes,
     .lowest = 0,
     .highest = 17592186044416,
     .initial = 34359738368,
     .read_by = Reader::kLibhvd,
     .fails_start = true,
     .note = "it is in bytes, without a unit",
     .meaning = "addresses that each rank sets aside for `hvd_alloc()`; memory is taken only as it "
                "is allocated; 0: none. Equal on all ranks of a node"},
    {.name = "HVD_FUSION_THRESHOLD",
     .kind = SettingKind::kBytes,
     .lowest = 0,
     .highest = std::numeric_limits<std::int64_t>::max(),
     .initial = 67108864,
     .read_by = Reader::kLibhvd,
     .also = "HOROVOD_FUSION_THRESHOLD",
     .fails_start = true,
     .note = "it is in bytes, without a unit",
     .meaning = "bytes that one batch may hold; also `HOROVOD_FUSION_THRESHOLD`"},
    {.name = "HVD_DIRECT",
     .kind = SettingKind::kSwitch,
     .lowest = 0,
     .highest = 1,
     .initial = 1,
     .read_by = Reader::kLibhvd,
     .fails_start = true,
     .meaning = "`0`: every request is negotiated, also a small one that all ranks make "
                "again and again (see [the protocol](../explanation/protocol.md#direct-rounds)); "
                "so is it for all where one rank says so"},
    {.name = "HVD_CHECK_REPLICAS",
     .kind = SettingKind::kInteger,
     .lowest = 0,
     .highest = 1000000000,
     .unit = "steps",
     .initial = 100,
     .read_by = Reader::kPython,
     .note = "the optimizer refuses it on every rank",
     .meaning = "steps from one comparison of parameters and optimizer state over ranks to the "
                "next, in Python's optimizers; 0: none. The first comes after the first step. "
                "Ranks with other values get an error: see [find drifting "
                "replicas](../how-to/find-drifting-replicas.md)"},
    {.name = "HVD_FULL_TRACEBACK",
     .kind = SettingKind::kSwitch,
     .lowest = 0,
     .highest = 1,
     .initial = 0,
     .read_by = Reader::kPython,
     .note = "all but 0 and nothing counts as 1",
     .meaning = "`1`: an error of hvd (or Ctrl-C) that ends a Python program is shown with every "
                "frame. Else with the program's own and its framework's: frames of `hvd` and "
                "`horovod` are left out. The exception has all of them either way, for debuggers "
                "and logs"},
    {.name = "HVD_STALL_CHECK_TIME_SECONDS",
     .kind = SettingKind::kSeconds,
     .lowest = 0,
     .highest = 1000000000,
     .initial = 60,
     .read_by = Reader::kLibhvd,
     .also = "HOROVOD_STALL_CHECK_TIME_SECONDS",
     .fails_start = true,
     .meaning = "report, on rank 0, tensors that some ranks did not submit, and on every rank "
                "batches that do not end on the GPU; 0: never; also `HOROVOD_...`"},
    {.name = "HVD_STALL_SHUTDOWN_TIME_SECONDS",
     .kind = SettingKind::kSeconds,
     .lowest = 0,
     .highest = 1000000000,
     .initial = 0,
     .read_by = Reader::kLibhvd,
     .also = "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
     .fails_start = true,
     .meaning = "end the job with an error on every rank when a tensor (or a change of process "
                "sets that was given up) has waited that long for ranks; more than the longest "
                "wait that is meant, as while rank 0 writes a checkpoint; 0: never. Below "
                "`HVD_STALL_CHECK_TIME_SECONDS`, or without that, it has no effect, which rank 0 "
                "says; also `HOROVOD_...`"},
    {.name = "HVD_LINK_TIMEOUT_SECONDS",
     .kind = SettingKind::kSeconds,
     .lowest = 1,
     .highest = 3600,
     .initial = 3,
     .read_by = Reader::kLibhvd,
     .fails_start = true,
     .meaning = "a host that does not answer on a connection for so long, though it was asked, is "
                "lost, and the job ends with an error on every rank. See "
                "[failure](../explanation/failure.md#links-and-hosts)"},
    {.name = "HVD_SILENCE_TIMEOUT_SECONDS",
     .kind = SettingKind::kSeconds,
     .lowest = 0,
     .highest = 1000000000,
     .initial = 300,
     .read_by = Reader::kLibhvd,
     .fails_start = true,
     .meaning = "a process that says nothing for so long though its host answers (stopped, swapped "
                "out, held by a debugger) is lost; 0: never"},
    {.name = "HVD_TIMELINE",
     .kind = SettingKind::kPath,
     .standard = "none",
     .read_by = Reader::kLibhvd,
     .also = "HOROVOD_TIMELINE",
     .meaning = "file for a [timeline](../how-to/read-a-timeline.md) from `hvd_init()` on; with "
                "`{rank}` in its name one of each rank, else of rank 0. `DYNAMIC`: none until "
                "`hvd_timeline_start()`. Also `HOROVOD_TIMELINE`"},
    {.name = "HVD_TIMELINE_MARK_BATCHES",
     .kind = SettingKind::kSwitch,
     .lowest = 0,
     .highest = 1,
     .initial = 0,
     .read_by = Reader::kLibhvd,
     .also = "HOROVOD_TIMELINE_MARK_CYCLES",
     .fails_start = true,
     .meaning = "`1`: it marks batches, too; also `HOROVOD_TIMELINE_MARK_CYCLES`"},
    {.name = "HVD_START_TIMEOUT_SECONDS",
     .kind = SettingKind::kSeconds,
     .lowest = 1,
     .highest = 1000000000,
     .initial = 120,
     .read_by = Reader::kLibhvd,
     .fails_start = true,
     .meaning = "how long ranks wait for each other at start"},
    {.name = "HVD_RENDEZVOUS_DIR",
     .kind = SettingKind::kPath,
     .standard = "`~/.cache/hvd`",
     .read_by = Reader::kLibhvd,
     .meaning = "folder of the rendezvous file and, in an allocation, of what `hvd.run()` sends to "
                "its ranks; must be seen by all nodes"},
    {.name = "HVD_WAIT_IN_BACKWARD",
     .kind = SettingKind::kSwitch,
     .lowest = 0,
     .highest = 1,
     .initial = 1,
     .read_by = Reader::kPython,
     .note = "the optimizer refuses it on every rank",
     .meaning = "`0`: `backward()` of PyTorch does not wait for the reduction of gradients, "
                "`step()` does: see [hvd.torch](python.md#training)"},
    {.name = "HVD_SHARE_GPU",
     .kind = SettingKind::kSwitch,
     .lowest = 0,
     .highest = 1,
     .initial = 0,
     .read_by = Reader::kLibhvd,
     .fails_start = true,
     .meaning = "`1`: several ranks may use one GPU"},
    {.name = "HVD_SITE_PATH",
     .kind = SettingKind::kPath,
     .standard = "none",
     .read_by = Reader::kHvdrun,
     .meaning = "folders of site files, colon-separated; then [the user's and the "
                "system's](site-schema.md)"},
    {.name = "HVD_LIBRARY",
     .kind = SettingKind::kPath,
     .standard = "found",
     .read_by = Reader::kPython,
     .meaning = "path of libhvd.so"},
    {.name = "HVD_TF_LIBRARY",
     .kind = SettingKind::kPath,
     .standard = "beside libhvd.so",
     .read_by = Reader::kPython,
     .meaning = "path of libhvd_tf.so, the plugin for TensorFlow"},
    {.name = "NO_COLOR",
     .kind = SettingKind::kText,
     .standard = "none",
     .read_by = Reader::kHvdrun,
     .meaning = "not empty: hvdrun colours nothing, on a terminal either"},
    {.name = "COLUMNS",
     .kind = SettingKind::kInteger,
     .lowest = 1,
     .highest = 10000,
     .unit = "columns",
     .standard = "the terminal's",
     .read_by = Reader::kHvdrun,
     .meaning = "width of `--help` (at most 100) and of what `explain` says of variables, which is "
                "wrapped on terminals alone"},
    {.name = "HVD_PYTHON",
     .kind = SettingKind::kPath,
     .standard = "`/usr/bin/python3`",
     .read_by = Reader::kScripts,
     .meaning = "the Python of the scripts in `scripts/` and `examples/slurm`"},
});

}  // namespace

std::span<const Setting> settings() { return kSettings; }

const Setting* find_setting(std::string_view name) {
  const auto found = std::find_if(kSettings.begin(), kSettings.end(),
                                  [name](const Setting& setting) { return setting.name == name; });
  return found == kSettings.end() ? nullptr : &*found;
}

}  // namespace hvd
