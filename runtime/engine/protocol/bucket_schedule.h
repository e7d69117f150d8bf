// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/request/description.h"

namespace hvd {

/// Learns what one step of a process set reduces, and then fixes in which buckets.
///
/// While it *learns*, a name leaves as soon as it is complete. A step ends when a name comes again.
/// After enough equal steps (the same names with the same descriptions, in any order) buckets are
/// made in the order of the first of them, and the schedule is *frozen*: a name waits until all
/// names of its bucket are complete, and the bucket leaves as one. What does not fit the step thaws
/// the schedule: all that waits leaves at once, and it learns again.
/// Pure. One thread at a time.
class BucketSchedule {
 public:
  using Ids = std::vector<std::uint32_t>;
  /// A small first bucket, so that the first bytes travel early, and then large ones: the sizes of
  /// PyTorch's DistributedDataParallel.
  struct Limits {
    std::size_t first_bytes = std::size_t{1} << 20;
    std::size_t bytes = std::size_t{25} << 20;
  };
  /// The consequences of a call.
  struct Outcome {
    Ids alone;               ///< These leave as names do that are in no bucket, in this order.
    Ids bucket = {};         ///< These leave as one run, whatever else is under way.
    std::size_t number = 0;  ///< ... which is this bucket, from 1.
    bool has_frozen = false;
    std::string thawed = {};  ///< Why it has thawed; empty: it has not.
  };

  explicit BucketSchedule(Limits limits) : limits_(limits) {}

  /// The name is complete.
  Outcome complete(std::uint32_t id, std::string_view name, const Description& description);
  /// Something happened that is not part of a step. What was learned is forgotten.
  Outcome thaw(std::string reason);
  /// A bucket keeps a rank waiting. As thaw(); besides, it takes twice as many equal steps as
  /// before until the schedule is frozen again, at most kMostSteps.
  Outcome urge(std::string reason);

  /// The id, which is in no bucket, is taken back: a step in which it came is not learned.
  void forget(std::uint32_t id);

  bool is_frozen() const { return !buckets_.empty(); }
  bool has_bucket_of(std::uint32_t id) const { return places_.contains(id); }
  /// Names that wait in buckets.
  std::size_t waiting() const { return waiting_; }
  /// The buckets; none while it learns.
  std::vector<Ids> buckets() const;
  /// Steps that have ended, all in buckets.
  std::uint64_t frozen_steps() const { return frozen_steps_; }

 private:
  static constexpr std::size_t kMostSteps = 1024;
  struct Member {
    std::uint32_t id = 0;
    Description description;
    bool waits = false;
  };
  struct Bucket {
    std::vector<Member> members;
    std::size_t bytes = 0;
    std::size_t waiting = 0;
    bool has_left = false;  ///< In this step.
  };
  struct Place {
    std::size_t bucket = 0;
    std::size_t member = 0;
  };
  /// The names of one step in order, and where each is.
  struct Step {
    std::vector<Member> members;
    std::unordered_map<std::uint32_t, std::size_t> by_id;
  };

  static bool are_equal(const Step& a, const Step& b);
  /// True when the schedule has frozen.
  bool end_step();
  void make_buckets();
  Outcome keep(Place place);
  Outcome thaw_for(std::uint32_t id, const Description& description, std::string reason);
  void learn(std::uint32_t id, const Description& description);

  Limits limits_;
  // Learning.
  Step step_;
  Step first_;             ///< Of the equal steps.
  std::size_t equal_ = 0;  ///< Equal steps that have ended.
  std::size_t steps_to_freeze_ = 2;
  // Frozen.
  std::vector<Bucket> buckets_;
  std::unordered_map<std::uint32_t, Place> places_;
  std::size_t waiting_ = 0;
  std::uint64_t frozen_steps_ = 0;
};

}  // namespace hvd
