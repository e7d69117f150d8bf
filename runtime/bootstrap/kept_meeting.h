// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "bootstrap/pmi2_client.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/store_message.h"
#include "bootstrap/tcp_store.h"
#include "bootstrap/tcp_store_server.h"

namespace hvd {

/// What a process keeps of its first meeting where that cannot be held twice: a PMI-2 server takes
/// one client once, and a PMIx client that has ended need not begin again. Later starts of the
/// process meet at the store of the first, which rank 0 then serves as long as it lives.
/// One start at a time.
struct KeptMeeting {
  std::unique_ptr<TcpStoreServer> server = nullptr;  ///< In rank 0.
  std::optional<Ticket> ticket = std::nullopt;
  int size = 0;          ///< As Rendezvous::size.
  std::string how = {};  ///< As MethodOffer::how.
  /// A meeting that timed out goes on where it stopped: the server still owes an answer.
  std::unique_ptr<Pmi2Client> pmi2 = nullptr;
  bool has_put = false;
  bool has_met = false;  ///< The ticket is known to all: later starts meet at its store.
  // In an elastic job under hvdrun:
  std::unique_ptr<TcpStore> store = nullptr;  ///< Of rank 0, watching for newcomers.
  bool has_newcomers = false;
  std::uint64_t epoch = 0;  ///< Of the last membership; 0: there was none.
  bool has_started = false;
  bool came_late = false;  ///< When it first started, the job was at work.
  /// The rank of it that this one has lost first; set by any thread.
  std::atomic<int> lost = store_message::kNobody;
  /// What keeps this process from ever meeting this way.
  Status failure = Status::ok();
};

/// A connection to the store of the first meeting. kPeerLost: the process that served it has ended.
Result<Rendezvous> meet_again(const KeptMeeting& kept, Deadline deadline);

/// Rank 0's half of a meeting that is kept: serves the store as long as `kept` lives.
/// `interfaces`: see ticket_of().
Status serve_kept(KeptMeeting& kept, const std::string& interfaces, Deadline deadline);

}  // namespace hvd
