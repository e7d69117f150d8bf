// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/result.h"

namespace hvd {

/// A change of the process sets, as one rank wants it. All ranks must want the same.
struct SetProposal {
  /// kTell: each rank describes what sets there will be, which a later kAdd makes.
  enum class Kind : std::uint8_t { kAdd = 0, kRemove = 1, kTell = 2 };
  Kind kind = Kind::kAdd;
  int process_set = 0;                  ///< The one to remove.
  std::vector<int> ranks = {};          ///< Of the one to add, ascending.
  std::uint64_t in_flight = 0;          ///< Operations of the one to remove, on this rank.
  std::int64_t patience_ms = kNoLimit;  ///< How long the rank will wait.
  static constexpr std::int64_t kNoLimit = -1;

  void set_deadline(Deadline deadline);
};

/// How a rank has fared with its part of the change.
struct SetAnswer {
  Status status;
  std::string offer;  ///< As SetWiring::offer(), of a member; of kTell what the rank tells.
};

Bytes encode(const SetProposal& proposal);
Result<SetProposal> decode_proposal(std::span<const std::byte> bytes);
Bytes encode(const SetAnswer& answer);
Result<SetAnswer> decode_answer(std::span<const std::byte> bytes);

/// Ok when all ranks propose the same and it can be done; else one error, the same on every rank.
Status check_proposals(const std::vector<SetProposal>& by_rank);
/// The failure of the lowest rank that failed, as the others tell it.
Status first_failure(const std::vector<SetAnswer>& by_rank, const std::vector<std::string>& hosts);
/// The deadline of all ranks together: that of the least patient.
Deadline common_deadline(const std::vector<SetProposal>& by_rank);

}  // namespace hvd
