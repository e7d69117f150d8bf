// SPDX-License-Identifier: Apache-2.0
#include "engine/loss_watch.h"

#include <utility>

#include "base/log.h"

namespace hvd {

Loss LossWatch::loss_of(int rank, const std::string& cause) const {
  const PeerInfo& peer = peers_[static_cast<std::size_t>(rank)];
  return {rank, format_text("rank {} on host {} (process {}) is lost: {}", rank, peer.host,
                            peer.pid, cause)};
}

void LossWatch::suspect(Loss suspicion, Clock::time_point now) {
  // The end of a connection names the peer; a failure of ours does not, and the first one is told.
  const bool is_ours = suspicion.rank == world_.rank;
  if (suspicion_ && (is_ours || suspicion_->loss.rank != world_.rank)) return;
  const auto due = suspicion_ ? suspicion_->due : now + kPatience;
  suspicion_ = Suspicion{std::move(suspicion), due};
}

std::optional<Loss> LossWatch::take_due(Clock::time_point now, bool awaits_answer) {
  if (!suspicion_ || now < suspicion_->due) return std::nullopt;
  if (now < suspicion_->due + options_.link_timeout && awaits_answer) return std::nullopt;
  return std::exchange(suspicion_, std::nullopt)->loss;
}

std::optional<Loss> LossWatch::judge(const NodeProcesses::Stopped& stopped) const {
  const PeerInfo& peer = peers_[static_cast<std::size_t>(stopped.rank)];
  if (stopped.looks == 2) {
    log(LogLevel::kWarning, "stall", "rank {} on host {} (process {}) is {}; the job waits for it",
        peer.rank, peer.host, peer.pid, stopped.stop);
  }
  const std::chrono::milliseconds limit = options_.silence_timeout;
  const std::chrono::milliseconds known = NodeProcesses::kLookInterval * (stopped.looks - 1);
  if (limit.count() == 0 || known < limit || stopped.looks < 2) return std::nullopt;
  return loss_of(stopped.rank,
                 format_text("its process is {} for {} s or longer; HVD_SILENCE_TIMEOUT_SECONDS "
                             "allows {:.6g}",
                             stopped.stop, known.count() / 1000,
                             std::chrono::duration<double>(limit).count()));
}

std::optional<Loss> LossWatch::blame_first_of_node(const NodeProcesses& processes) const {
  const std::string_view stop = processes.stop_of_first();
  if (stop.empty()) return std::nullopt;
  const int first = world_.nodes[static_cast<std::size_t>(world_.node)].front();
  return loss_of(first, format_text("its process is {}, and a rank that needs it has ended its "
                                    "connection",
                                    stop));
}

}  // namespace hvd
