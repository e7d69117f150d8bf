// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/stall_report.h"

#include <thread>
#include <utility>

#include "backends/nccl/nccl_ras.h"
#include "base/check.h"
#include "base/log.h"

namespace hvd {
namespace {

constexpr std::chrono::seconds kRasTime{10};

std::string ras_text(const std::string& address) {
  const auto answer = ask_ras(address, Deadline::after(kRasTime));
  if (!answer.is_ok()) {
    return format_text("; NCCL's RAS says nothing: {}", answer.status().message());
  }
  const std::string findings = ras_findings(answer.value());
  return findings.empty() ? "; NCCL's RAS finds no error" : "; NCCL's RAS says:\n" + findings;
}

}  // namespace

LaunchBoard::LaunchBoard(std::span<std::byte> memory, int local_rank)
    : counts_(reinterpret_cast<Count*>(memory.data()), memory.size() / sizeof(Count)),
      local_rank_(local_rank) {
  HVD_CHECK(static_cast<std::size_t>(local_rank) < counts_.size());
}

void LaunchBoard::count_mine() { ++counts_[static_cast<std::size_t>(local_rank_)].batches; }

std::uint64_t LaunchBoard::count_of(int local_rank) const {
  return counts_[static_cast<std::size_t>(local_rank)].batches.load();
}

bool should_report(const StalledBatch& batch, const LaunchBoard& board, int local_rank) {
  if (!batch.is_launched) return true;
  for (int rank = 0; rank < local_rank; ++rank) {
    if (board.count_of(rank) > batch.number) return false;
  }
  return true;
}

std::string stall_text(const StalledBatch& batch, const Communicator& communicator,
                       const LaunchBoard& board) {
  std::string text = format_text(
      "rank {} on host {}: batch {} of process set {} ({}) {} for {} s", communicator.world_rank(),
      communicator.hosts[static_cast<std::size_t>(communicator.rank)], batch.number,
      communicator.process_set, batch.what,
      batch.is_launched ? "is on the GPU" : "is not taken up by NCCL", batch.time.count());
  std::string missing;
  const auto& local = communicator.nodes[static_cast<std::size_t>(communicator.node)];
  for (int rank = 0; rank < communicator.local_size(); ++rank) {
    if (board.count_of(rank) > batch.number) continue;
    const auto member = static_cast<std::size_t>(local[static_cast<std::size_t>(rank)]);
    const int world_rank = communicator.world_ranks.empty() ? static_cast<int>(member)
                                                            : communicator.world_ranks[member];
    missing += format_text("{}{}", missing.empty() ? "" : ", ", world_rank);
  }
  return text + (missing.empty() ? "; all ranks of this node have put it into their streams"
                                 : "; not in the streams of these ranks of this node: " + missing);
}

void report_stall(std::string text, std::string ras) {
  std::thread([text = std::move(text), ras = std::move(ras)] {
    log(LogLevel::kWarning, "stall", "{}{}", text, ras.empty() ? std::string() : ras_text(ras));
  }).detach();
}

}  // namespace hvd
