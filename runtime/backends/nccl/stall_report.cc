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

bool should_report(const StalledBatch& batch, const LaunchBoard& board, int local_rank) {
  if (batch.stage != StalledBatch::Stage::kLaunched) return true;
  for (int rank = 0; rank < local_rank; ++rank) {
    if (board.launched_by(rank) > batch.number) return false;
  }
  return true;
}

std::string stall_text(const StalledBatch& batch, const Communicator& communicator,
                       const LaunchBoard& board) {
  using Stage = StalledBatch::Stage;
  const bool is_begun = batch.stage != Stage::kBucket;
  std::string_view state = "waits for all ranks to tell NCCL of its bucket";
  if (is_begun) state = batch.stage == Stage::kGroup ? "is not taken up by NCCL" : "is on the GPU";
  std::string text = format_text("rank {} on host {}: batch {} of process set {} ({}) {} for {} s",
                                 communicator.world_rank(), communicator.host(), batch.number,
                                 communicator.process_set, batch.what, state, batch.time.count());
  std::string missing;
  const auto& local = communicator.nodes[static_cast<std::size_t>(communicator.node)];
  for (int rank = 0; rank < communicator.local_size(); ++rank) {
    if ((is_begun ? board.launched_by(rank) : board.begun_by(rank)) > batch.number) continue;
    const auto member = static_cast<std::size_t>(local[static_cast<std::size_t>(rank)]);
    const int world_rank = communicator.world_ranks.empty() ? static_cast<int>(member)
                                                            : communicator.world_ranks[member];
    missing += format_text("{}{}", missing.empty() ? "" : ", ", world_rank);
  }
  if (missing.empty()) {
    return text + (is_begun ? "; all ranks of this node have put it into their streams"
                            : "; all ranks of this node have done so");
  }
  return text +
         (is_begun ? "; not in the streams of these ranks of this node: "
                   : "; these ranks of this node have not begun it: ") +
         missing;
}

void report_stall(std::string text, std::string ras) {
  std::thread([text = std::move(text), ras = std::move(ras)] {
    log(LogLevel::kWarning, "stall", "{}{}", text, ras.empty() ? std::string() : ras_text(ras));
  }).detach();
}

}  // namespace hvd
