// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_facts.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace hvd {
namespace {

/// "rank 3 on host n1", with the rank of the job.
std::string place_of(const Communicator& communicator, std::size_t rank) {
  const int world_rank =
      communicator.world_ranks.empty() ? static_cast<int>(rank) : communicator.world_ranks[rank];
  return format_text("rank {} on host {}", world_rank, communicator.hosts[rank]);
}

/// Patches of one minor version talk to each other.
int without_patch(std::int32_t version) { return version / 100; }

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

Status check_versions(std::span<const NcclFacts> facts, const Communicator& communicator) {
  for (std::size_t rank = 1; rank < facts.size(); ++rank) {
    if (without_patch(facts[rank].version) == without_patch(facts[0].version)) continue;
    return error(Code::kMismatch,
                 "{} has NCCL {}, and {} has {}: versions of NCCL do not talk to each other; use "
                 "one environment (module, container, virtual environment) on all ranks, or name "
                 "one library in HVD_NCCL_LIBRARY",
                 place_of(communicator, rank), version_text(facts[rank].version),
                 place_of(communicator, 0), version_text(facts[0].version));
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

Status check_gpus(std::span<const NcclFacts> facts, const Communicator& communicator) {
  for (std::size_t second = 1; second < facts.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      if (facts[first].uuid != facts[second].uuid) continue;
      HVD_TRY(check_shared_gpu(facts, communicator, first, second));
    }
  }
  return Status::ok();
}

/// Ranks of one node each see one GPU, and the others are closed to them: NCCL then copies through
/// host memory.
void note_missing_peer_access(std::span<const NcclFacts> facts, const Communicator& communicator,
                              std::vector<std::string>& notices) {
  for (const std::vector<int>& node : communicator.nodes) {
    const bool confined = node.size() > 1 && std::all_of(node.begin(), node.end(), [&](int rank) {
                            const NcclFacts& fact = facts[static_cast<std::size_t>(rank)];
                            return fact.visible_gpus == 1 && fact.is_confined != 0;
                          });
    if (!confined) continue;
    notices.push_back(format_text(
        "host {}: each rank may open its own GPU only, so that GPUs cannot copy from each other "
        "and NCCL goes through host memory; replace Slurm's --gpus-per-task (or "
        "--gpu-bind=single) by --gpus-per-node with --gpu-bind=none",
        communicator.hosts[static_cast<std::size_t>(node.front())]));
    return;
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

NcclAgreement agree_on_nccl(std::span<const NcclFacts> facts, const Communicator& communicator) {
  NcclAgreement agreement;
  for (const auto check : {&check_problems, &check_versions, &check_gpus}) {
    agreement.status = check(facts, communicator);
    if (!agreement.status.is_ok()) return agreement;
  }
  note_missing_peer_access(facts, communicator, agreement.notices);
  note_unequal_gpus(facts, communicator, agreement.notices);
  return agreement;
}

bool has_closed_gpus(const std::string& folder) {
  std::error_code missing;
  for (std::filesystem::directory_iterator entry(folder, missing), end; !missing && entry != end;
       entry.increment(missing)) {
    if (!is_gpu_file(entry->path().filename().string())) continue;
    if (::access(entry->path().c_str(), R_OK | W_OK) != 0) return true;
  }
  return false;
}

}  // namespace hvd
