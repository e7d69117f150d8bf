// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/result.h"

namespace hvd {

/// A job in the background, as its folder tells: job.json when it starts, output as it writes, exit
/// when it has ended.
struct DetachedJob {
  int number = 0;
  std::string folder;
  std::string host;
  pid_t pid = -1;           ///< Of its hvdrun.
  std::uint64_t start = 0;  ///< Of that process: ProcessStat::start.
  std::int64_t began = 0;   ///< Seconds since 1970.
  std::string directory;
  std::vector<std::string> command;
  std::optional<int> exit_code = {};

  std::string output() const { return folder + "/output"; }
};

/// Where the jobs of this user are: below XDG_STATE_HOME, or ~/.local/state.
Result<std::string> detached_jobs_folder(const Environment& environment);

/// Makes the folder of the next job, for this user alone, and removes those of jobs that ended
/// long ago. Its number and path.
Result<DetachedJob> make_detached_job(const std::string& jobs);
Status write_detached_job(const DetachedJob& job);
/// Tells for good how the job has ended.
Status write_exit_code(const DetachedJob& job, int code);

/// Ascending. What cannot be read is left out.
std::vector<DetachedJob> read_detached_jobs(const std::string& jobs);
/// The content of job.json. Pure.
Result<DetachedJob> parse_detached_job(std::string_view text);

enum class DetachedState {
  kRuns,
  kEnded,
  kKilled,     ///< Its hvdrun is gone, and has said no exit code.
  kElsewhere,  ///< On another host: not known here.
};
/// As seen from the host `host`. `is_alive`: there is a process of that number and start. Pure.
DetachedState state_of(const DetachedJob& job, std::string_view host, bool is_alive);
/// The same, asking this machine; reads the exit code of one that has just ended.
DetachedState look_at_job(DetachedJob& job);

/// "running", "ended with exit code 3", ...
std::string describe_state(const DetachedJob& job, DetachedState state);

/// The list of jobs, for people and for programs.
std::string describe_jobs(std::vector<DetachedJob> jobs);
std::string jobs_json(std::vector<DetachedJob> jobs);

}  // namespace hvd
