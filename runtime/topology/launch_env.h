// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// The one table of HVD_* variables that hvdrun writes and libhvd reads.
namespace hvd::launch_env {

inline constexpr std::string_view kRank = "HVD_RANK";             ///< 0..size-1
inline constexpr std::string_view kSize = "HVD_SIZE";             ///< Ranks of the job.
inline constexpr std::string_view kLocalRank = "HVD_LOCAL_RANK";  ///< 0..local_size-1 on the node.
inline constexpr std::string_view kLocalSize = "HVD_LOCAL_SIZE";  ///< Ranks on the node.
inline constexpr std::string_view kNode = "HVD_NODE";             ///< Index of the node.
/// "ADDRESS:PORT[,ADDRESS:PORT...]" of hvdrun's TCP store, numeric; IPv6 in brackets.
inline constexpr std::string_view kStore = "HVD_STORE";
/// 256-bit job key, 64 hex digits. A secret: redacted in every output.
inline constexpr std::string_view kJobKey = "HVD_JOB_KEY";
/// In an elastic job: the number of this process, for life. It asks hvdrun for its rank at each
/// start; HVD_RANK and its like are those of the first.
inline constexpr std::string_view kProcess = "HVD_PROCESS";
/// Index of the virtual node (`--nodes`): ranks of different virtual nodes share no memory.
inline constexpr std::string_view kVirtualNode = "HVD_VIRTUAL_NODE";
/// Index into the rank's visible GPUs (an entry of the visible list, not a PCI number).
inline constexpr std::string_view kLocalDevice = "HVD_LOCAL_DEVICE";
/// What the rank's GPU is called on its node, alike for every rank there: PCI bus id, "GPU-..." or
/// "MIG-...". Unset: no GPU, or not known. Two ranks with one name on a host do not start.
inline constexpr std::string_view kGpuId = "HVD_GPU_ID";
/// "1": several ranks may use one GPU. The user sets it.
inline constexpr std::string_view kShareGpu = "HVD_SHARE_GPU";
/// The one backend that its kind of memory may use. The user sets it, alike for all ranks.
inline constexpr std::string_view kBackend = "HVD_BACKEND";
/// Unique per job; descendants are found by it when all must go.
inline constexpr std::string_view kJobMarker = "HVD_JOB_MARKER";
/// "FD:INODE" of a pipe that hvdrun reads: a rank that loses a peer writes "RANK LOST\n" into it,
/// so that hvdrun names the peer first, however the ends of the two are ordered; kNobodyLost once
/// it has started, with all of them.
inline constexpr std::string_view kLossPipe = "HVD_LOSS_PIPE";
inline constexpr int kNobodyLost = -1;
/// "JOB.STEP/ADDRESS:PORT": MASTER_ADDR and MASTER_PORT of these values are hvdrun's, for the tasks
/// of that Slurm step, and not the user's own. Either may be empty.
inline constexpr std::string_view kMasterOf = "HVD_MASTER_OF";
/// "JOB.STEP/RANK": RANK of this value, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE are hvdrun's,
/// for a task of that step, and not the user's own.
inline constexpr std::string_view kRankOf = "HVD_RANK_OF";
/// Folder of the rendezvous file (default ~/.cache/hvd), for steps without PMI-2 or hvdrun.
inline constexpr std::string_view kRendezvousDir = "HVD_RENDEZVOUS_DIR";
/// Network interfaces, comma-separated, under which other hosts may reach this one. The user sets
/// it.
inline constexpr std::string_view kInterface = "HVD_INTERFACE";
/// Network interfaces, comma-separated, under which the other ranks look for rank 0 first. The user
/// sets it; else those of HVD_INTERFACE; where that is unset, too, hvdrun sets it from the site.
inline constexpr std::string_view kBootstrapInterface = "HVD_BOOTSTRAP_INTERFACE";
/// TCP connections for each lane and pair of nodes; that of rank 0 counts. The user sets it.
inline constexpr std::string_view kTcpSockets = "HVD_TCP_SOCKETS";
/// Seconds that ranks wait for each other at start (default 120).
inline constexpr std::string_view kStartTimeout = "HVD_START_TIMEOUT_SECONDS";

}  // namespace hvd::launch_env
