// SPDX-License-Identifier: Apache-2.0
#include "c/settings.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "base/settings.h"
#include "topology/launch_env.h"

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
  HVD_TRY_ASSIGN(const auto found, read_number(environment, "HVD_STALL_SHUTDOWN_TIME_SECONDS"));
  const std::chrono::seconds shutdown(found.value_or(0));
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

}  // namespace

Result<Settings> settings_from(const Environment& environment, const hvd_init_options* given) {
  HVD_TRY_ASSIGN(const hvd_init_options options, known_fields(given));
  Settings settings;

  HVD_TRY_ASSIGN(const auto fusion, read_number(environment, "HVD_FUSION_THRESHOLD"));
  if (fusion) settings.engine.fusion_bytes = static_cast<std::size_t>(*fusion);
  if (options.fusion_bytes != 0) settings.engine.fusion_bytes = options.fusion_bytes;
  settings.engine.backend = read_text(environment, launch_env::kBackend);
  settings.engine.environment = environment;
  // Of the GPU plane, which reads them when it begins: a word in place of a number must not keep
  // one rank from it.
  for (const char* name : {"HVD_SHARE_GPU", "HVD_NCCL_REGISTER", "HVD_GPU_GRAPHS"}) {
    HVD_TRY(read_switch(environment, name).status());
  }
  HVD_TRY_ASSIGN(settings.engine.timeline, timeline_of(environment));

  HVD_TRY_ASSIGN(const auto stall, read_number(environment, "HVD_STALL_CHECK_TIME_SECONDS"));
  if (stall) settings.engine.stall_warning = std::chrono::seconds(*stall);
  HVD_TRY_ASSIGN(const milliseconds stall_option,
                 checked_seconds("stall_check_seconds", options.stall_check_seconds));
  if (stall_option.count() != 0) {
    settings.engine.stall_warning = std::max(stall_option, milliseconds(0));
  }
  HVD_TRY(read_stall_shutdown(environment, settings));
  HVD_TRY_ASSIGN(const auto link, read_number(environment, "HVD_LINK_TIMEOUT_SECONDS"));
  if (link) settings.engine.link_timeout = std::chrono::seconds(*link);
  HVD_TRY_ASSIGN(const auto silence, read_number(environment, "HVD_SILENCE_TIMEOUT_SECONDS"));
  if (silence) settings.engine.silence_timeout = std::chrono::seconds(*silence);

  HVD_TRY_ASSIGN(const auto arena, read_number(environment, "HVD_ARENA_BYTES"));
  if (arena) settings.arena_bytes = static_cast<std::size_t>(*arena);

  HVD_TRY_ASSIGN(const auto start, read_number(environment, launch_env::kStartTimeout));
  if (start) settings.start_timeout = std::chrono::seconds(*start);
  HVD_TRY_ASSIGN(const milliseconds start_option,
                 checked_seconds("start_timeout_seconds", options.start_timeout_seconds));
  if (start_option.count() < 0) {
    return error(Code::kInvalidArgument, "hvd_init: start_timeout_seconds is {}, below 0",
                 options.start_timeout_seconds);
  }
  if (start_option.count() != 0) settings.start_timeout = start_option;
  HVD_TRY_ASSIGN(settings.process_sets, process_sets_of(options));
  return settings;
}

Deadline deadline_after(double timeout_seconds) {
  if (!(timeout_seconds >= 0) || timeout_seconds > kMostSeconds) return kForever;
  return Deadline::after(
      std::chrono::nanoseconds(static_cast<std::int64_t>(timeout_seconds * 1e9)));
}

}  // namespace hvd
