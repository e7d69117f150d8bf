// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

/// One job, or one entry of an array, as `scontrol --oneliner show job` tells of it.
struct JobStatus {
  std::string id;      ///< "12", or "12_3" for an entry of an array.
  std::string state;   ///< "PENDING"
  std::string reason;  ///< "Resources"; "None" is empty.
  std::string start;   ///< Expected or real; empty: not known.
  std::string end;     ///< When the time limit ends a running job; empty: not known.
  std::string nodes;   ///< "jz[1-2]"; empty: none yet.
  std::string partition;
  std::string output;  ///< Path of standard output.
  /// Of the time limit, of a running job that has one.
  std::optional<std::chrono::seconds> time_left = std::nullopt;
  int restarts = 0;
  int exit_code = 0;     ///< Of the batch script.
  int signal = 0;        ///< That ended it.
  int array_entry = -1;  ///< -1: none, or several that still wait.

  bool is_pending() const;
  bool has_ended() const;
  /// What a shell would say: the exit code, 128 plus the signal, or 1 where the job did not
  /// complete.
  int shell_code() const;
};

/// One status a line; lines without a job are left out.
std::vector<JobStatus> parse_job_status(std::string_view text);

/// The place of job `id` among the ids of `queue`, one a line, the next to start first: "3 of 8".
/// Empty: not among them.
std::string queue_place(std::string_view queue, std::string_view id);

/// The sentence for the user: "job 12 is pending (Resources), 3 of 8 in partition gpu_p13".
std::string describe_job(const JobStatus& status, const std::string& place);

}  // namespace hvd
