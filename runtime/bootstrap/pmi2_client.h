// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/result.h"

namespace hvd {

/// What the environment says of a PMI-2 server: PMI_FD, PMI_JOBID, PMI_RANK.
struct Pmi2Server {
  int fd = -1;
  std::string job;
  int rank = 0;
};

/// The key-value space of a PMI-2 server such as Slurm's mpi/pmi2, over the descriptor PMI_FD.
/// Values are hex, in pieces that fit the protocol's limit. After a timeout the same call goes on
/// waiting for the answer that the server still owes; another call is an error. One thread at a
/// time.
class Pmi2Client {
 public:
  /// Says hello. The descriptor is borrowed.
  static Result<Pmi2Client> open(const Pmi2Server& server, Deadline deadline);

  Status put(std::string_view key, std::string_view value, Deadline deadline);
  /// Returns when every rank has called it; only then are the others' values there.
  Status fence(Deadline deadline);
  Result<std::string> get(std::string_view key, Deadline deadline);

 private:
  using Fields = std::map<std::string, std::string, std::less<>>;
  explicit Pmi2Client(int fd) : fd_(fd) {}
  /// Sends one command and returns the fields of its answer; a server's refusal is kSystem.
  Result<Fields> ask(std::string_view command, std::string_view fields, Deadline deadline);
  Status send(std::string_view text, Deadline deadline);
  /// Reads until `received_` holds that much.
  Status receive(std::size_t size, Deadline deadline);
  Result<std::string> receive_answer(Deadline deadline);
  int fd_;
  std::string job_;
  std::string asked_;     ///< The command that has no answer yet.
  std::string received_;  ///< Of that answer.
};

}  // namespace hvd
