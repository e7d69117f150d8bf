// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/deadline.h"
#include "base/environment.h"
#include "base/status.h"
#include "bootstrap/kept_meeting.h"

namespace hvd {

/// Rank 0 serves a store and puts its ticket in the PMI-2 key-value space; the others learn it
/// there. What is done stays in `kept`: after a timeout the next call goes on with it.
Status meet_by_pmi2(KeptMeeting& kept, const Environment& environment, int rank, Deadline deadline);

}  // namespace hvd
