// SPDX-License-Identifier: Apache-2.0
#include "c/settings.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "base/read_setting.h"
#include "topology/identity.h"

namespace hvd {

namespace {

using std::chrono::milliseconds;

constexpr double kMostSeconds = 1e9;  // above any job's length; keeps milliseconds in range

/// DYNAMIC is Horovod's word for none until the program starts one.
Result<TimelineOptions> timeline_of(const Environment& environment) {
  TimelineOptions timeline;
  timeline.path = read_text(environment, "HVD_TIMELINE");
  if (timeline.path == "DYNAMIC") timeline.path.clear();
  HVD_TRY_ASSIGN(timeline.mark_batches, read_switch(environment, "HVD_TIMELINE_MARK_BATCHES"));
  return timeline;
}

/// The fields that the caller's version of the struct has; zero in those it does not know.
Result<hvd_init_options> known_fields(const hvd_init_options* given) {
  hvd_init_options options{};
  if (given == nullptr) return options;
  if (given->struct_size <
      offsetof(hvd_init_options, start_timeout_seconds) + sizeof(options.start_timeout_seconds)) {
    return error(Code::kInvalidArgument,
                 "hvd_init: struct_size is {}; set it to sizeof(hvd_init_options)",
                 given->struct_size);
  }
  std::memcpy(&options, given, std::min(given->struct_size, sizeof options));
  return options;
}

Result<milliseconds> checked_seconds(std::string_view field, double seconds) {
  if (!std::isfinite(seconds) || std::fabs(seconds) > kMostSeconds) {
    return error(Code::kInvalidArgument, "hvd_init: {} is {}, not a number of seconds", field,
                 seconds);
  }
  return milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

/// When a stall ends the job. As in Horovod, one that is not even reported does not.
Status read_stall_shutdown(const Environment& environment, Settings& settings) {
  HVD_TRY_ASSIGN(const std::chrono::seconds shutdown,
                 read_seconds(environment, "HVD_STALL_SHUTDOWN_TIME_SECONDS"));
  const milliseconds warning = settings.engine.stall_warning;
  if (shutdown.count() == 0 || warning.count() == 0) return Status::ok();
  if (shutdown >= warning) {
    settings.engine.stall_shutdown = shutdown;
  } else {
    settings.notice = format_text(
        "no stall will end the job: HVD_STALL_SHUTDOWN_TIME_SECONDS (or "
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS) is {}, less than HVD_STALL_CHECK_TIME_SECONDS "
        "({:.6g}); raise it, or check sooner",
        shutdown.count(), static_cast<double>(warning.count()) / 1000.0);
  }
  return Status::ok();
}

Result<std::vector<std::vector<int>>> process_sets_of(const hvd_init_options& options) {
  std::vector<std::vector<int>> sets;
  for (std::uint32_t i = 0; i < options.process_set_count; ++i) {
    if (options.process_sets == nullptr || options.process_sets[i].ranks == nullptr) {
      return error(Code::kInvalidArgument,
                   "hvd_init: process set {} of {} is null; give each a list of ranks", i + 1,
                   options.process_set_count);
    }
    const hvd_ranks& given = options.process_sets[i];
    sets.emplace_back(given.ranks, given.ranks + given.count);
  }
  return sets;
}

/// All of libhvd, as the environment has them.
Result<Settings> read_settings(const Environment& environment) {
  Settings settings;
  HVD_TRY_ASSIGN(settings.meeting, MeetingSettings::from(environment));
  settings.mpi_library = read_text(environment, "HVD_MPI_LIBRARY");
  HVD_TRY_ASSIGN(settings.arena_bytes, read_bytes(environment, "HVD_ARENA_BYTES"));

  EngineOptions& engine = settings.engine;
  engine.backend = settings.meeting.backend;
  HVD_TRY_ASSIGN(engine.nccl, NcclSettings::from(environment));
  engine.gpu_driver = GpuDriverSettings::from(environment);
  HVD_TRY_ASSIGN(engine.timeline, timeline_of(environment));
  HVD_TRY_ASSIGN(engine.fusion_bytes, read_bytes(environment, "HVD_FUSION_THRESHOLD"));
  HVD_TRY_ASSIGN(engine.direct, read_switch(environment, "HVD_DIRECT"));
  HVD_TRY_ASSIGN(engine.stall_warning, read_seconds(environment, "HVD_STALL_CHECK_TIME_SECONDS"));
  HVD_TRY_ASSIGN(engine.link_timeout, read_seconds(environment, "HVD_LINK_TIMEOUT_SECONDS"));
  HVD_TRY_ASSIGN(engine.silence_timeout, read_seconds(environment, "HVD_SILENCE_TIMEOUT_SECONDS"));
  return settings;
}

/// What hvd_init() was given comes before.
Status take_options(const hvd_init_options& options, Settings& settings) {
  if (options.fusion_bytes != 0) settings.engine.fusion_bytes = options.fusion_bytes;
  HVD_TRY_ASSIGN(const milliseconds stall,
                 checked_seconds("stall_check_seconds", options.stall_check_seconds));
  if (stall.count() != 0) settings.engine.stall_warning = std::max(stall, milliseconds(0));
  HVD_TRY_ASSIGN(const milliseconds start,
                 checked_seconds("start_timeout_seconds", options.start_timeout_seconds));
  if (start.count() < 0) {
    return error(Code::kInvalidArgument, "hvd_init: start_timeout_seconds is {}, below 0",
                 options.start_timeout_seconds);
  }
  if (start.count() != 0) settings.meeting.start_timeout = start;
  HVD_TRY_ASSIGN(settings.process_sets, process_sets_of(options));
  return Status::ok();
}

/// "rank 3", where a launcher has told who this process is.
Status name_rank(const Status& failure, const Environment& environment) {
  const auto identity = derive_identity(environment);
  if (!identity.is_ok() || !identity.value()) return failure;
  return failure.with_context(format_text("rank {}", identity.value()->rank));
}

}  // namespace

Result<Settings> settings_from(const Environment& environment, const hvd_init_options* given) {
  HVD_TRY_ASSIGN(const hvd_init_options options, known_fields(given));
  auto settings = read_settings(environment);
  if (!settings.is_ok()) return name_rank(settings.status(), environment);
  HVD_TRY(take_options(options, settings.value()));
  const Status stall = read_stall_shutdown(environment, settings.value());
  if (!stall.is_ok()) return name_rank(stall, environment);
  return settings;
}

Deadline deadline_after(double timeout_seconds) {
  if (!(timeout_seconds >= 0) || timeout_seconds > kMostSeconds) return kForever;
  return Deadline::after(
      std::chrono::nanoseconds(static_cast<std::int64_t>(timeout_seconds * 1e9)));
}

}  // namespace hvd
