// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/result.h"
#include "bootstrap/kept_meeting.h"
#include "bootstrap/meeting_settings.h"
#include "bootstrap/rendezvous.h"
#include "topology/identity.h"

namespace hvd {

struct MethodInput {
  const Environment& environment;
  const MeetingSettings& settings;
  const Identity& identity;
  Deadline deadline;
  KeptMeeting& kept;  ///< Of this process, over all its starts.
};

/// A rendezvous, or the sentence that says why this method has none to offer.
struct MethodOffer {
  std::optional<Rendezvous> rendezvous = std::nullopt;
  std::string how = {};       ///< "slurm (file)": how the ranks met, for people.
  std::string declined = {};  ///< Empty when there is a rendezvous.
};

/// One way for the ranks of a job to find each other. An error ends the start of the job: a method
/// that does not apply declines instead.
struct Method {
  std::string_view name;
  Result<MethodOffer> (*meet)(const MethodInput& input);
};

/// All methods, in the order in which they are tried.
std::span<const Method> methods();

Result<MethodOffer> meet_by_hvdrun(const MethodInput& input);
Result<MethodOffer> meet_by_mpi(const MethodInput& input);
Result<MethodOffer> meet_by_slurm(const MethodInput& input);
Result<MethodOffer> meet_by_launcher_file(const MethodInput& input);
Result<MethodOffer> meet_by_pmix(const MethodInput& input);

/// Meets by the rendezvous file that bears the job's name (job_name.h); declines where nothing
/// names the job or no folder can hold the file.
Result<MethodOffer> meet_by_named_file(const MethodInput& input, std::string how);

inline MethodOffer decline(std::string why) { return {.declined = std::move(why)}; }

}  // namespace hvd
