// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "engine/driver.h"
#include "engine/epoch.h"
#include "engine/protocol/set_change.h"

namespace hvd {

/// Process sets are added and removed by all ranks together, on the threads of their callers.
///
/// A change is made of collectives over all ranks, so that a rank that is late, dies or disagrees
/// is found as in any other: they exchange what each wants (propose), what each found out or opened
/// (answer), for a new set how its connections went (connected), and in the end that the log has
/// told all of the change (done). Between the last two the root writes the change into the log.
/// Thread-safe.
class SetChanges {
 public:
  /// All outlive this object.
  SetChanges(Epoch& epoch, Driver& driver, Submission& submission, Completion& completion)
      : epoch_(epoch), driver_(driver), submission_(submission), completion_(completion) {}

  /// As Engine::add_process_set(), remove_process_set() and tell_all().
  Result<int> add(std::vector<int> ranks, Deadline deadline);
  Status remove(int process_set, Deadline deadline);
  Result<std::vector<std::string>> tell_all(Result<std::string> mine, Deadline deadline);

 private:
  Result<PendingPtr> post(std::string name, Bytes mine);
  Result<std::vector<Bytes>> exchange(std::string name, Bytes mine, Deadline deadline);
  Result<Deadline> agree(std::uint64_t number, SetProposal mine, Deadline deadline)
      HVD_REQUIRES(mutex_);
  Result<std::vector<SetAnswer>> answer(std::uint64_t number, std::string_view step,
                                        const SetAnswer& mine, Deadline deadline);
  Result<int> form(std::uint64_t number, const std::vector<int>& ranks, Deadline deadline);
  /// Waits for the requests of a set that end by themselves: callers of wait_stream(), or of
  /// join(), think of them as done. What is in flight then.
  std::size_t await_unattended(const SetPlane* plane, Deadline deadline);
  int rank() const { return epoch_.world().rank; }

  Epoch& epoch_;
  Driver& driver_;
  Submission& submission_;
  Completion& completion_;
  Mutex mutex_;  ///< One change of the process sets at a time.
  std::uint64_t changes_ HVD_GUARDED_BY(mutex_) = 0;
};

}  // namespace hvd
