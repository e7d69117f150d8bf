// SPDX-License-Identifier: Apache-2.0
#include "c/settings.h"

#include <gtest/gtest.h>

#include <limits>

namespace hvd {
namespace {

using std::chrono::milliseconds;

hvd_init_options options_with_size() {
  hvd_init_options options{};
  options.struct_size = sizeof options;
  return options;
}

TEST(Settings, HaveDefaultsWithoutOptionsAndEnvironment) {
  const Settings settings = settings_from(Environment(), nullptr).value();
  EXPECT_EQ(settings.engine.fusion_bytes, std::size_t{64} << 20);
  EXPECT_EQ(settings.engine.stall_warning, milliseconds(60'000));
  EXPECT_EQ(settings.meeting.start_timeout, milliseconds(120'000));
}

TEST(Settings, AreByDefaultWhatAnEngineHasWithoutAny) {
  const EngineOptions read = settings_from(Environment(), nullptr).value().engine;
  const EngineOptions made;
  EXPECT_EQ(read.fusion_bytes, made.fusion_bytes);
  EXPECT_EQ(read.direct, made.direct);
  EXPECT_EQ(read.stall_warning, made.stall_warning);
  EXPECT_EQ(read.stall_shutdown, made.stall_shutdown);
  EXPECT_EQ(read.link_timeout, made.link_timeout);
  EXPECT_EQ(read.silence_timeout, made.silence_timeout);
  EXPECT_EQ(read.backend, made.backend);
  EXPECT_EQ(read.timeline.path, made.timeline.path);
  EXPECT_EQ(read.timeline.mark_batches, made.timeline.mark_batches);
  EXPECT_EQ(read.nccl.shares_gpu, made.nccl.shares_gpu);
  EXPECT_EQ(read.nccl.registers, made.nccl.registers);
  EXPECT_EQ(read.nccl.uses_graphs, made.nccl.uses_graphs);
}

TEST(Settings, AnEmptyValueIsNone) {
  Environment environment;
  for (const char* name : {"HVD_FUSION_THRESHOLD", "HVD_STALL_CHECK_TIME_SECONDS", "HVD_DIRECT",
                           "HVD_BACKEND", "HVD_TCP_SOCKETS"}) {
    environment.set(name, "");
  }
  environment.set("HOROVOD_FUSION_THRESHOLD", "1000");
  const auto settings = settings_from(environment, nullptr);
  ASSERT_TRUE(settings.is_ok()) << settings.status().message();
  EXPECT_EQ(settings.value().engine.fusion_bytes, 1000u) << "so Horovod's name counts";
  EXPECT_EQ(settings.value().engine.stall_warning, milliseconds(60'000));
  EXPECT_TRUE(settings.value().engine.direct);
}

TEST(Settings, ReadBothNamesAndPreferOurs) {
  Environment environment;
  environment.set("HOROVOD_FUSION_THRESHOLD", "1000");
  environment.set("HOROVOD_STALL_CHECK_TIME_SECONDS", "5");
  environment.set("HVD_START_TIMEOUT_SECONDS", "7");
  Settings settings = settings_from(environment, nullptr).value();
  EXPECT_EQ(settings.engine.fusion_bytes, 1000u);
  EXPECT_EQ(settings.engine.stall_warning, milliseconds(5000));
  EXPECT_EQ(settings.meeting.start_timeout, milliseconds(7000));
  environment.set("HVD_FUSION_THRESHOLD", "2000");
  settings = settings_from(environment, nullptr).value();
  EXPECT_EQ(settings.engine.fusion_bytes, 2000u);
}

TEST(Settings, AStallEndsTheJobOnlyAfterItWasReported) {
  Environment environment;
  EXPECT_EQ(settings_from(environment, nullptr).value().engine.stall_shutdown, milliseconds(0));
  environment.set("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "61");
  EXPECT_EQ(settings_from(environment, nullptr).value().engine.stall_shutdown,
            milliseconds(61'000));
  environment.set("HVD_STALL_SHUTDOWN_TIME_SECONDS", "0");
  EXPECT_EQ(settings_from(environment, nullptr).value().engine.stall_shutdown, milliseconds(0));
  environment.set("HVD_STALL_SHUTDOWN_TIME_SECONDS", "60");
  EXPECT_EQ(settings_from(environment, nullptr).value().engine.stall_shutdown,
            milliseconds(60'000));
  EXPECT_EQ(settings_from(environment, nullptr).value().notice, "");
  environment.set("HVD_STALL_SHUTDOWN_TIME_SECONDS", "59");
  const Settings settings = settings_from(environment, nullptr).value();
  EXPECT_EQ(settings.engine.stall_shutdown, milliseconds(0)) << "as in Horovod";
  EXPECT_NE(settings.notice.find("is 59, less than HVD_STALL_CHECK_TIME_SECONDS (60)"),
            std::string::npos)
      << settings.notice;
  environment.set("HVD_STALL_CHECK_TIME_SECONDS", "0");
  EXPECT_EQ(settings_from(environment, nullptr).value().engine.stall_shutdown, milliseconds(0))
      << "without the check nothing ends, as in Horovod";
}

TEST(Settings, ReadTheBackendThatAUserWants) {
  Environment environment;
  EXPECT_EQ(settings_from(environment, nullptr).value().engine.backend, "");
  environment.set("HVD_BACKEND", "tcp");
  EXPECT_EQ(settings_from(environment, nullptr).value().engine.backend, "tcp");
}

TEST(Settings, ReadTheTimelineUnderBothNames) {
  Environment environment;
  EXPECT_EQ(settings_from(environment, nullptr).value().engine.timeline.path, "");
  EXPECT_FALSE(settings_from(environment, nullptr).value().engine.timeline.mark_batches);
  environment.set("HOROVOD_TIMELINE", "theirs.json");
  environment.set("HOROVOD_TIMELINE_MARK_CYCLES", "1");
  EXPECT_EQ(settings_from(environment, nullptr).value().engine.timeline.path, "theirs.json");
  EXPECT_TRUE(settings_from(environment, nullptr).value().engine.timeline.mark_batches);
  environment.set("HVD_TIMELINE", "ours.json");
  environment.set("HVD_TIMELINE_MARK_BATCHES", "0");
  EXPECT_EQ(settings_from(environment, nullptr).value().engine.timeline.path, "ours.json");
  EXPECT_FALSE(settings_from(environment, nullptr).value().engine.timeline.mark_batches);
  environment.set("HVD_TIMELINE", "DYNAMIC");
  EXPECT_EQ(settings_from(environment, nullptr).value().engine.timeline.path, "");
}

TEST(Settings, DirectRoundsCanBeTurnedOff) {
  Environment environment;
  EXPECT_TRUE(settings_from(environment, nullptr).value().engine.has_direct(1));
  environment.set("HVD_BACKEND", "shm");
  EXPECT_TRUE(settings_from(environment, nullptr).value().engine.has_direct(1));
  EXPECT_FALSE(settings_from(environment, nullptr).value().engine.has_direct(2)) << "shm cannot";
  environment.set("HVD_BACKEND", "tcp");
  EXPECT_FALSE(settings_from(environment, nullptr).value().engine.has_direct(1)) << "tcp does all";
  Environment off;
  off.set("HVD_DIRECT", "0");
  EXPECT_FALSE(settings_from(off, nullptr).value().engine.has_direct(1));
}

TEST(Settings, OptionsPrecedeTheEnvironment) {
  Environment environment;
  environment.set("HVD_FUSION_THRESHOLD", "2000");
  environment.set("HVD_STALL_CHECK_TIME_SECONDS", "5");
  hvd_init_options options = options_with_size();
  options.fusion_bytes = 3000;
  options.stall_check_seconds = -1;
  options.start_timeout_seconds = 0.25;
  const Settings settings = settings_from(environment, &options).value();
  EXPECT_EQ(settings.engine.fusion_bytes, 3000u);
  EXPECT_EQ(settings.engine.stall_warning, milliseconds(0));
  EXPECT_EQ(settings.meeting.start_timeout, milliseconds(250));
}

TEST(Settings, AnOlderShorterStructIsRead) {
  hvd_init_options options = options_with_size();
  options.struct_size = offsetof(hvd_init_options, fusion_bytes);
  options.start_timeout_seconds = 3;
  options.fusion_bytes = 12345;  // beyond what the caller says it knows
  const Settings settings = settings_from(Environment(), &options).value();
  EXPECT_EQ(settings.meeting.start_timeout, milliseconds(3000));
  EXPECT_EQ(settings.engine.fusion_bytes, std::size_t{64} << 20);
}

TEST(Settings, BadValuesNameVariableAndValue) {
  Environment environment;
  environment.set("HVD_FUSION_THRESHOLD", "64MB");
  const Status status = settings_from(environment, nullptr).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("HVD_FUSION_THRESHOLD"), std::string::npos);
  EXPECT_NE(status.message().find("64MB"), std::string::npos);
}

TEST(Settings, TimesMustBeNumbersOfSeconds) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 1e300}) {
    hvd_init_options options = options_with_size();
    options.start_timeout_seconds = bad;
    const Status status = settings_from(Environment(), &options).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad;
    EXPECT_NE(status.message().find("not a number of seconds"), std::string::npos) << bad;
  }
}

TEST(Settings, SwitchesOfTheGpuPlaneAreNumbers) {
  for (const char* name : {"HVD_SHARE_GPU", "HVD_NCCL_REGISTER", "HVD_GPU_GRAPHS"}) {
    Environment environment;
    environment.set(name, "yes");
    const Status status = settings_from(environment, nullptr).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find(name), std::string::npos);
    environment.set(name, "1");
    EXPECT_TRUE(settings_from(environment, nullptr).is_ok());
  }
}

TEST(Settings, BadOptionsAreRefused) {
  hvd_init_options options{};
  EXPECT_EQ(settings_from(Environment(), &options).status().code(), Code::kInvalidArgument);
  options = options_with_size();
  options.start_timeout_seconds = -1;
  EXPECT_EQ(settings_from(Environment(), &options).status().code(), Code::kInvalidArgument);
  options.start_timeout_seconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(settings_from(Environment(), &options).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace hvd
