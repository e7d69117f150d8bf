// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_facts.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>

namespace hvd {
namespace {

/// "rank 3 on host n1", with the rank of the job.
std::string place_of(const Communicator& communicator, std::size_t rank) {
  const int world_rank =
      communicator.world_ranks.empty() ? static_cast<int>(rank) : communicator.world_ranks[rank];
  return format_text("rank {} on host {}", world_rank, communicator.hosts[rank]);
}

std::string version_text(std::int32_t version) {
  return format_text("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Status check_problems(std::span<const NcclFacts> facts, const Communicator& communicator) {
  // A failure before what can be worked around: it must not be hidden by the slower way.
  for (const bool failed : {true, false}) {
    for (std::size_t rank = 0; rank < facts.size(); ++rank) {
      const std::string_view problem = text_of(facts[rank].problem);
      if (problem.empty() || (facts[rank].is_failed != 0) != failed) continue;
      return error(failed ? Code::kInvalidArgument : Code::kUnsupported, "{}: {}",
                   place_of(communicator, rank), problem);
    }
  }
  return Status::ok();
}

/// NCCL refuses ranks that differ in the patch alone ("Mismatched NCCL version detected").
Status check_versions(std::span<const NcclFacts> facts, const Communicator& communicator) {
  for (std::size_t rank = 1; rank < facts.size(); ++rank) {
    if (facts[rank].version == facts[0].version) continue;
    return error(Code::kMismatch,
                 "{} has NCCL {}, and {} has {}: NCCL wants the same version on all ranks, to the "
                 "last number; use one environment (module, container, virtual environment), or "
                 "name one library in HVD_NCCL_LIBRARY",
                 place_of(communicator, rank), version_text(facts[rank].version),
                 place_of(communicator, 0), version_text(facts[0].version));
  }
  return Status::ok();
}

/// NCCL registers buckets on all ranks together, and reads those of others.
Status check_registration(std::span<const NcclFacts> facts, const Communicator& communicator) {
  for (std::size_t rank = 1; rank < facts.size(); ++rank) {
    if (facts[rank].registers == facts[0].registers) continue;
    return error(Code::kMismatch,
                 "{} has HVD_NCCL_REGISTER={}, and {} has {}: NCCL would wait for ever; give all "
                 "ranks the same (1 where it is not set)",
                 place_of(communicator, rank), facts[rank].registers, place_of(communicator, 0),
                 facts[0].registers);
  }
  return Status::ok();
}

Status check_shared_gpu(std::span<const NcclFacts> facts, const Communicator& communicator,
                        std::size_t first, std::size_t second) {
  const NcclFacts& one = facts[first];
  const NcclFacts& other = facts[second];
  const std::string what =
      format_text("{} and {} use the same GPU ({}, {})", place_of(communicator, first),
                  place_of(communicator, second), text_of(one.gpu), text_of(one.bus_id));
  if (one.shares_gpu == 0 || other.shares_gpu == 0) {
    return error(Code::kInvalidArgument,
                 "{}, which NCCL refuses: start one rank per GPU with hvdrun, or with Slurm's "
                 "--gpus-per-node and --gpu-bind=none, and choose the GPU of the local rank; for "
                 "tests HVD_SHARE_GPU=1 on all ranks allows it",
                 what);
  }
  if (one.host_id == 0 || one.host_id == other.host_id) {
    return error(Code::kInvalidArgument,
                 "{}, as HVD_SHARE_GPU=1 allows, but NCCL takes them for one: give each rank "
                 "another NCCL_HOSTID",
                 what);
  }
  return Status::ok();
}

std::vector<int> nodes_of_ranks(const Communicator& communicator) {
  std::vector<int> nodes(static_cast<std::size_t>(communicator.size));
  for (std::size_t node = 0; node < communicator.nodes.size(); ++node) {
    for (const int rank : communicator.nodes[node]) {
      nodes[static_cast<std::size_t>(rank)] = static_cast<int>(node);
    }
  }
  return nodes;
}

/// NCCL tells GPUs by their places on the bus: MIG instances of one have uuids of their own.
Status check_gpus(std::span<const NcclFacts> facts, const Communicator& communicator) {
  const std::vector<int> nodes = nodes_of_ranks(communicator);
  for (std::size_t second = 1; second < facts.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      const bool is_one_place = nodes[first] == nodes[second] &&
                                text_of(facts[first].bus_id) == text_of(facts[second].bus_id);
      if (!is_one_place && facts[first].uuid != facts[second].uuid) continue;
      HVD_TRY(check_shared_gpu(facts, communicator, first, second));
    }
  }
  return Status::ok();
}

/// How the GPU of one rank comes to the memory of that of another rank of its node.
enum class Access { kDirect, kOutOfReach, kClosed };

Access access_of(const NcclFacts& from, const NcclFacts& to) {
  if (from.uuid == to.uuid) return Access::kDirect;
  const std::uint64_t other = NcclFacts::hash_of(to.uuid);
  for (std::uint32_t i = 0; i < from.peers; ++i) {
    if (from.peer_gpus[i] != other) continue;
    return ((from.peers_out_of_reach >> i) & 1U) != 0 ? Access::kOutOfReach : Access::kDirect;
  }
  // One that is only hidden (CUDA_VISIBLE_DEVICES) is reached all the same.
  const bool sees_all = from.visible_gpus <= static_cast<int>(NcclFacts::kMostPeers) + 1;
  return sees_all && from.is_confined != 0 ? Access::kClosed : Access::kDirect;
}

/// Pairs of ranks of one node, for a sentence: the first, and how many there are.
struct Pairs {
  int first = 0;
  int second = 0;
  int count = 0;

  void add(int one, int other) {
    if (count++ > 0) return;
    first = one;
    second = other;
  }
  /// "ranks 4 and 5 on host a (and 2 more pairs there)".
  std::string text(const Communicator& communicator) const {
    const auto world_rank = [&](int rank) {
      const auto index = static_cast<std::size_t>(rank);
      return communicator.world_ranks.empty() ? rank : communicator.world_ranks[index];
    };
    const std::string more =
        count == 1 ? ""
                   : format_text(" (and {} more pair{} there)", count - 1, count == 2 ? "" : "s");
    return format_text("ranks {} and {} on host {}{}", world_rank(first), world_rank(second),
                       communicator.hosts[static_cast<std::size_t>(first)], more);
  }
};

/// NCCL copies through host memory between GPUs that do not come to each other's. The first node
/// speaks for all: they are alike.
void note_missing_peer_access(std::span<const NcclFacts> facts, const Communicator& communicator,
                              std::vector<std::string>& notices) {
  Pairs closed;
  Pairs apart;
  for (const std::vector<int>& node : communicator.nodes) {
    for (std::size_t second = 1; second < node.size(); ++second) {
      for (std::size_t first = 0; first < second; ++first) {
        const NcclFacts& one = facts[static_cast<std::size_t>(node[first])];
        const NcclFacts& other = facts[static_cast<std::size_t>(node[second])];
        const Access access = std::max(access_of(one, other), access_of(other, one));
        if (access == Access::kClosed) closed.add(node[first], node[second]);
        if (access == Access::kOutOfReach) apart.add(node[first], node[second]);
      }
    }
    if (closed.count + apart.count > 0) break;
  }
  if (closed.count > 0) {
    notices.push_back(format_text(
        "{} may not open each other's GPUs, so that NCCL copies between them through host memory: "
        "replace Slurm's --gpus-per-task (or --gpu-bind) by --gpus-per-node with --gpu-bind=none, "
        "or add --gres-flags=allow-task-sharing to srun (Slurm 23.11.4 or newer)",
        closed.text(communicator)));
  }
  if (apart.count > 0) {
    notices.push_back(format_text(
        "{} have GPUs without peer access, so that NCCL copies between them through host memory: "
        "some models never have it; where others lack it the site can turn off PCIe ACS and the "
        "IOMMU, or let a virtual machine have it. No flag of Slurm changes that",
        apart.text(communicator)));
  }
}

void note_unequal_gpus(std::span<const NcclFacts> facts, const Communicator& communicator,
                       std::vector<std::string>& notices) {
  for (std::size_t rank = 1; rank < facts.size(); ++rank) {
    if (text_of(facts[rank].gpu) == text_of(facts[0].gpu)) continue;
    notices.push_back(format_text("{} has a GPU {}, and {} a {}: the slowest sets the pace",
                                  place_of(communicator, rank), text_of(facts[rank].gpu),
                                  place_of(communicator, 0), text_of(facts[0].gpu)));
    return;
  }
}

bool is_gpu_file(const std::string& name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.size() > kPrefix.size() && name.rfind(kPrefix, 0) == 0 &&
         std::all_of(name.begin() + kPrefix.size(), name.end(),
                     [](unsigned char letter) { return std::isdigit(letter) != 0; });
}

}  // namespace

void put_text(std::span<char> field, std::string_view text) {
  const std::size_t length = std::min(text.size(), field.size() - 1);
  std::copy_n(text.begin(), length, field.begin());
  std::fill(field.begin() + static_cast<std::ptrdiff_t>(length), field.end(), '\0');
}

std::string_view text_of(std::span<const char> field) {
  return {field.data(), ::strnlen(field.data(), field.size())};
}

std::uint64_t NcclFacts::hash_of(const std::array<std::uint8_t, 16>& uuid) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(uuid.data()), uuid.size()});
}

void NcclFacts::add_peer(const std::array<std::uint8_t, 16>& gpu, bool is_in_reach) {
  if (peers == kMostPeers) return;
  if (!is_in_reach) peers_out_of_reach |= 1U << peers;
  peer_gpus[peers++] = hash_of(gpu);
}

NcclAgreement agree_on_nccl(std::span<const NcclFacts> facts, const Communicator& communicator) {
  NcclAgreement agreement;
  for (const auto check : {&check_problems, &check_versions, &check_registration, &check_gpus}) {
    agreement.status = check(facts, communicator);
    if (!agreement.status.is_ok()) return agreement;
  }
  agreement.reduces_float8 = std::all_of(
      facts.begin(), facts.end(), [](const NcclFacts& rank) { return rank.reduces_float8 != 0; });
  note_missing_peer_access(facts, communicator, agreement.notices);
  note_unequal_gpus(facts, communicator, agreement.notices);
  return agreement;
}

bool is_confined_to(int visible, const std::string& folder) {
  int open = 0;
  int closed = 0;
  std::error_code missing;
  for (std::filesystem::directory_iterator entry(folder, missing), end; !missing && entry != end;
       entry.increment(missing)) {
    if (!is_gpu_file(entry->path().filename().string())) continue;
    ++(::access(entry->path().c_str(), R_OK | W_OK) == 0 ? open : closed);
  }
  return closed > 0 && open <= visible;
}

}  // namespace hvd
