// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/pmi2_meeting.h"

#include <fcntl.h>

#include <memory>
#include <utility>

namespace hvd {
namespace {

constexpr std::string_view kPmi2Key = "hvd-ticket";

/// The server says hello once: a second client on its descriptor would end the task.
Result<Pmi2Client> open_client(const Environment& environment, int rank, Deadline deadline) {
  HVD_TRY_ASSIGN(const auto fd, environment.get_int("PMI_FD", 0, 1 << 20));
  if (!fd || ::fcntl(static_cast<int>(*fd), F_GETFD) < 0) {
    return error(Code::kInvalidArgument,
                 "PMI_FD={} is not an open descriptor; something between srun and the program "
                 "closed it: use `srun --mpi=none`",
                 fd.value_or(-1));
  }
  return Pmi2Client::open({.fd = static_cast<int>(*fd),
                           .job = environment.get("PMI_JOBID").value_or("0"),
                           .rank = rank},
                          deadline);
}

}  // namespace

Status meet_by_pmi2(const MethodInput& input) {
  KeptMeeting& kept = input.kept;
  const int rank = input.identity.rank;
  const Deadline deadline = input.deadline;
  HVD_TRY(kept.failure);
  if (kept.pmi2 == nullptr) {
    auto client = open_client(input.environment, rank, deadline);
    if (!client.is_ok()) {
      kept.failure = client.status();
      return client.status();
    }
    kept.pmi2 = std::make_unique<Pmi2Client>(std::move(client).value());
  }
  if (rank == 0 && kept.server == nullptr) {
    HVD_TRY(serve_kept(kept, input.settings.first_interfaces, deadline));
  }
  if (rank == 0 && !kept.has_put) {
    HVD_TRY(kept.pmi2->put(kPmi2Key, format_ticket(*kept.ticket), deadline));
    kept.has_put = true;
  }
  HVD_TRY(kept.pmi2->fence(deadline));
  if (rank != 0) {
    HVD_TRY_ASSIGN(const std::string text, kept.pmi2->get(kPmi2Key, deadline));
    HVD_TRY_ASSIGN(kept.ticket, parse_ticket(text));
  }
  kept.has_met = true;
  return Status::ok();
}

}  // namespace hvd
