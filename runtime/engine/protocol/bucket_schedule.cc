// SPDX-License-Identifier: Apache-2.0
#include "engine/protocol/bucket_schedule.h"

#include <algorithm>
#include <utility>

#include "engine/plane/fusion.h"

namespace hvd {

BucketSchedule::Outcome BucketSchedule::complete(std::uint32_t id, std::string_view name,
                                                 const Description& description) {
  bool has_frozen = false;
  if (!is_frozen()) {
    has_frozen = step_.by_id.contains(id) && end_step();
    if (!has_frozen) {
      learn(id, description);
      return {.alone = {id}};
    }
  }
  const auto found = places_.find(id);
  if (found == places_.end()) {
    return thaw_for(id, description, format_text("'{}' is new", name));
  }
  const Place place = found->second;
  const Bucket& bucket = buckets_[place.bucket];
  if (bucket.members[place.member].description != description) {
    return thaw_for(id, description, format_text("'{}' has changed", name));
  }
  if (bucket.members[place.member].waits || (bucket.has_left && waiting_ > 0)) {
    steps_to_freeze_ = std::min(2 * steps_to_freeze_, kMostSteps);
    return thaw_for(id, description,
                    format_text("'{}' came again before all of the step had come", name));
  }
  Outcome outcome = keep(place);
  outcome.has_frozen = has_frozen;
  return outcome;
}

BucketSchedule::Outcome BucketSchedule::thaw(std::string reason) {
  Outcome outcome;
  if (is_frozen()) outcome.thawed = std::move(reason);
  for (const Bucket& bucket : buckets_) {
    for (const Member& member : bucket.members) {
      if (member.waits) outcome.alone.push_back(member.id);
    }
  }
  buckets_.clear();
  places_.clear();
  waiting_ = 0;
  step_ = {};
  first_ = {};
  equal_ = 0;
  return outcome;
}

BucketSchedule::Outcome BucketSchedule::urge(std::string reason) {
  if (!is_frozen()) return {};
  steps_to_freeze_ = std::min(2 * steps_to_freeze_, kMostSteps);
  return thaw(std::move(reason));
}

void BucketSchedule::forget(std::uint32_t id) {
  if (!step_.by_id.contains(id) && !first_.by_id.contains(id)) return;
  step_ = {};
  first_ = {};
  equal_ = 0;
}

std::vector<BucketSchedule::Ids> BucketSchedule::buckets() const {
  std::vector<Ids> list;
  list.reserve(buckets_.size());
  for (const Bucket& bucket : buckets_) {
    Ids& ids = list.emplace_back();
    ids.reserve(bucket.members.size());
    for (const Member& member : bucket.members) ids.push_back(member.id);
  }
  return list;
}

BucketSchedule::Outcome BucketSchedule::keep(Place place) {
  Bucket& bucket = buckets_[place.bucket];
  if (bucket.has_left) {
    ++frozen_steps_;
    for (Bucket& other : buckets_) other.has_left = false;
  }
  bucket.members[place.member].waits = true;
  ++bucket.waiting;
  ++waiting_;
  if (bucket.waiting < bucket.members.size()) return {};
  Outcome outcome;
  outcome.number = place.bucket + 1;
  outcome.bucket.reserve(bucket.members.size());
  for (Member& member : bucket.members) {
    outcome.bucket.push_back(member.id);
    member.waits = false;
  }
  waiting_ -= bucket.waiting;
  bucket.waiting = 0;
  bucket.has_left = true;
  return outcome;
}

/// The name starts what is learned next, and leaves behind what waited.
BucketSchedule::Outcome BucketSchedule::thaw_for(std::uint32_t id, const Description& description,
                                                 std::string reason) {
  Outcome outcome = thaw(std::move(reason));
  outcome.alone.push_back(id);
  learn(id, description);
  return outcome;
}

void BucketSchedule::learn(std::uint32_t id, const Description& description) {
  step_.by_id[id] = step_.members.size();
  step_.members.push_back({id, description});
}

bool BucketSchedule::are_equal(const Step& a, const Step& b) {
  if (a.members.size() != b.members.size()) return false;
  return std::all_of(a.members.begin(), a.members.end(), [&](const Member& member) {
    const auto found = b.by_id.find(member.id);
    return found != b.by_id.end() && b.members[found->second].description == member.description;
  });
}

bool BucketSchedule::end_step() {
  if (equal_ > 0 && are_equal(step_, first_)) {
    ++equal_;
    step_ = {};
  } else {
    first_ = std::exchange(step_, {});
    equal_ = 1;
  }
  if (equal_ < steps_to_freeze_) return false;
  make_buckets();
  return true;
}

/// In order: a bucket that is full is never opened again, since what comes late would hold it up.
void BucketSchedule::make_buckets() {
  struct Open {
    std::size_t bucket = 0;
    std::size_t limit = 0;
  };
  std::vector<Open> open;  // one for each kind of what may travel together
  for (Member& member : first_.members) {
    const std::size_t bytes = member.description.bytes();
    auto kind = std::find_if(open.begin(), open.end(), [&](const Open& candidate) {
      return may_fuse(buckets_[candidate.bucket].members.front().description, member.description);
    });
    if (kind == open.end()) {
      kind = open.insert(kind, {buckets_.size(), limits_.first_bytes});
      buckets_.emplace_back();
    } else if (buckets_[kind->bucket].bytes + bytes > kind->limit) {
      *kind = {buckets_.size(), limits_.bytes};
      buckets_.emplace_back();
    }
    Bucket& bucket = buckets_[kind->bucket];
    places_[member.id] = {kind->bucket, bucket.members.size()};
    bucket.bytes += bytes;
    bucket.members.push_back(std::move(member));
  }
  first_ = {};
  equal_ = 0;
}

}  // namespace hvd
