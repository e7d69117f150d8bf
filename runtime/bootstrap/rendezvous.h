// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/result.h"
#include "bootstrap/job_name.h"
#include "bootstrap/tcp_store.h"
#include "bootstrap/tcp_store_server.h"
#include "transport/job_key.h"

namespace hvd {

/// Where the ranks meet: a store that all of them reach, and the key that proves who belongs.
struct Rendezvous {
  Rendezvous() = default;
  Rendezvous(Rendezvous&& other) noexcept = default;
  Rendezvous& operator=(Rendezvous&& other) noexcept = default;
  /// Removes the file, met or not: it holds the key.
  ~Rendezvous();

  /// In rank 0, where no launcher serves the store. Outlives `store`: it is declared first.
  std::unique_ptr<TcpStoreServer> server = nullptr;
  std::unique_ptr<TcpStore> store = nullptr;
  JobKey key = {};
  std::unique_ptr<std::string> file = nullptr;  ///< Removed once all have met; null: none.
  int size = 0;  ///< Where the method alone knows it; 0: as the identity says.
};

/// Removes the rendezvous file when all ranks have read it.
void remove_file(Rendezvous& rendezvous);

/// What rank 0 tells the others so that they find and trust its store.
struct Ticket {
  std::string host;
  std::string addresses;  ///< As in HVD_STORE.
  std::string key;        ///< 64 hex digits. A secret.
  std::string nonce;      ///< Tells two tickets of the same name apart.
  std::string machine;    ///< machine_key() of rank 0.
};

std::string format_ticket(const Ticket& ticket);
Result<Ticket> parse_ticket(std::string_view text);

/// Rank 0's half: a server with a fresh key, and a connection to it.
Result<Rendezvous> serve_rendezvous(Deadline deadline);
/// A connection of the process that serves the store.
Result<std::unique_ptr<TcpStore>> connect_to_own(const TcpStoreServer& server, const JobKey& key,
                                                 Deadline deadline);
/// The addresses of the interfaces in this list, comma-separated, come first.
Ticket ticket_of(const Rendezvous& rendezvous, const std::string& interfaces);
/// The other ranks' half. One attempt: a server that is not there makes the ticket stale.
Result<Rendezvous> join_rendezvous(const Ticket& ticket, Deadline deadline);

/// What the ranks of a job meet by, as seen from one of them.
struct FileMeeting {
  std::string folder;
  JobName name;
  int rank = 0;
  ProcessPlace place = {};      ///< Of this rank.
  std::string interfaces = {};  ///< Of rank 0, to try first: see ticket_of().

  std::string path() const { return folder + "/" + name.file(); }
};

/// kInvalidArgument, naming both hosts, where the ticket is of another machine than the layout of
/// the job has rank 0 on.
Status check_ticket(const Ticket& ticket, const FileMeeting& meeting);

/// Meets by a file that rank 0 writes and the others poll for. A file whose server refuses or does
/// not answer is left from an earlier run, and is read again until the deadline. So is one that
/// check_ticket() refuses; the error says so.
Result<Rendezvous> meet_by_file(const FileMeeting& meeting, Deadline deadline);

/// `asked` (HVD_RENDEZVOUS_DIR), or `~/.cache/hvd` where that is empty; created (mode 0700) where
/// missing. kInvalidArgument or kSystem where there is no such folder and none can be made.
Result<std::string> rendezvous_folder(const std::string& asked, const Environment& environment);
/// `name` as a file name: everything but letters, digits, '.', '_' and '-' becomes '_'.
std::string safe_file_name(std::string_view name);

}  // namespace hvd
