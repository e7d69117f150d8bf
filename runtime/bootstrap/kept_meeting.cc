// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/kept_meeting.h"

#include <utility>

#include "bootstrap/tcp_store.h"
#include "transport/socket_address.h"

namespace hvd {

Result<Rendezvous> meet_again(const KeptMeeting& kept, Deadline deadline) {
  const Ticket& ticket = *kept.ticket;
  if (kept.server == nullptr) return join_rendezvous(ticket, deadline);
  Rendezvous rendezvous;
  HVD_TRY_ASSIGN(rendezvous.key, JobKey::from_hex(ticket.key));
  HVD_TRY_ASSIGN(rendezvous.store, connect_to_own(*kept.server, rendezvous.key, deadline));
  return rendezvous;
}

Status serve_kept(KeptMeeting& kept, const std::string& interfaces, Deadline deadline) {
  HVD_TRY_ASSIGN(Rendezvous rendezvous, serve_rendezvous(deadline));
  kept.ticket = ticket_of(rendezvous, interfaces);
  kept.server = std::move(rendezvous.server);
  return Status::ok();
}

}  // namespace hvd
