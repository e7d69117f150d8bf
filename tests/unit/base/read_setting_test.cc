// SPDX-License-Identifier: Apache-2.0
#include "base/read_setting.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace hvd {
namespace {

using std::chrono::seconds;

Environment with(std::string name, std::string value) {
  Environment environment;
  environment.set(std::move(name), std::move(value));
  return environment;
}

/// The message of a refusal.
template <typename Read>
std::string refusal(Read read, const std::string& name, const std::string& value) {
  const auto result = read(with(name, value), name);
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument) << name << "=" << value;
  return result.status().message();
}

TEST(ReadSetting, HasTheDefaultOfTheRowWhereItIsUnset) {
  EXPECT_EQ(read_seconds({}, "HVD_LINK_TIMEOUT_SECONDS").value(), seconds(3));
  EXPECT_EQ(read_bytes({}, "HVD_FUSION_THRESHOLD").value(), std::size_t{64} << 20);
  EXPECT_FALSE(read_integer({}, "HVD_TCP_SOCKETS").value().has_value());
  EXPECT_EQ(read_integer({}, "HVD_CHECK_REPLICAS").value(), 100);
  EXPECT_FALSE(read_switch({}, "HVD_SHARE_GPU").value());
  EXPECT_TRUE(read_switch({}, "HVD_NCCL_REGISTER").value());
  EXPECT_EQ(read_choice({}, "HVD_BACKEND").value(), "");
  EXPECT_EQ(read_text({}, "HVD_RENDEZVOUS_DIR"), "");
}

TEST(ReadSetting, AnEmptyValueIsNone) {
  const auto empty = [](const char* name) { return with(name, ""); };
  EXPECT_EQ(read_seconds(empty("HVD_LINK_TIMEOUT_SECONDS"), "HVD_LINK_TIMEOUT_SECONDS").value(),
            seconds(3));
  EXPECT_TRUE(read_switch(empty("HVD_NCCL_REGISTER"), "HVD_NCCL_REGISTER").value());
  EXPECT_FALSE(read_integer(empty("HVD_TCP_SOCKETS"), "HVD_TCP_SOCKETS").value().has_value());
  Environment both = empty("HVD_FUSION_THRESHOLD");
  both.set("HOROVOD_FUSION_THRESHOLD", "1");
  EXPECT_EQ(read_bytes(both, "HVD_FUSION_THRESHOLD").value(), 1U);
}

TEST(ReadSetting, TakesTheEndsOfTheRange) {
  const char* const link = "HVD_LINK_TIMEOUT_SECONDS";
  EXPECT_EQ(read_seconds(with(link, "1"), link).value(), seconds(1));
  EXPECT_EQ(read_seconds(with(link, "3600"), link).value(), seconds(3600));
  EXPECT_EQ(read_integer(with("HVD_TCP_SOCKETS", "16"), "HVD_TCP_SOCKETS").value(), 16);
  EXPECT_EQ(read_bytes(with("HVD_FUSION_THRESHOLD", "9223372036854775807"), "HVD_FUSION_THRESHOLD")
                .value(),
            static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()));
}

TEST(ReadSetting, RefusesSecondsThatAreNone) {
  for (const char* value : {"0", "3601", "3s", "1.5", " 3", "-1", "99999999999999999999"}) {
    EXPECT_EQ(refusal(read_seconds, "HVD_LINK_TIMEOUT_SECONDS", value),
              "HVD_LINK_TIMEOUT_SECONDS='" + std::string(value) +
                  "' is not a whole number of seconds from 1 to 3600; give digits alone, such as "
                  "3, or unset it");
  }
}

TEST(ReadSetting, RefusesBytesWithAUnit) {
  EXPECT_EQ(refusal(read_bytes, "HVD_FUSION_THRESHOLD", "64M"),
            "HVD_FUSION_THRESHOLD='64M' is not a whole number of bytes from 0 on; give digits "
            "alone, without a unit, or unset it");
}

TEST(ReadSetting, RefusesNumbersOutOfRange) {
  EXPECT_EQ(refusal(read_integer, "HVD_TCP_SOCKETS", "17"),
            "HVD_TCP_SOCKETS='17' is not a whole number of connections from 1 to 16; give a "
            "number in this range, or unset it");
}

TEST(ReadSetting, RefusesSwitchesThatAreWords) {
  for (const char* value : {"yes", "2", "01x"}) {
    EXPECT_EQ(refusal(read_switch, "HVD_SHARE_GPU", value),
              "HVD_SHARE_GPU='" + std::string(value) +
                  "' is not 0 or 1; give 0 for off or 1 for on, or unset it");
  }
}

TEST(ReadSetting, RefusesWhatIsNotAmongTheChoices) {
  for (const char* value : {"gloo", "TCP", "shm,tcp"}) {
    EXPECT_EQ(refusal(read_choice, "HVD_BACKEND", value),
              "HVD_BACKEND='" + std::string(value) +
                  "' is not one of shm, tcp, mpi, nccl, staged; give one of these, in this "
                  "spelling, or unset it");
  }
  EXPECT_EQ(read_choice(with("HVD_BACKEND", "tcp"), "HVD_BACKEND").value(), "tcp");
  EXPECT_EQ(read_choice(with("HVD_BACKEND", ""), "HVD_BACKEND").value(), "");
}

TEST(ReadSetting, TakesAnyTextPathAndWords) {
  EXPECT_EQ(read_text(with("HVD_INTERFACE", "ib0, ib1"), "HVD_INTERFACE"), "ib0, ib1");
  EXPECT_EQ(read_text(with("HVD_LIBRARY", "/a b"), "HVD_LIBRARY"), "/a b");
  EXPECT_EQ(read_text(with("HVD_LOG", "info,odd"), "HVD_LOG"), "info,odd");
}

TEST(ReadSetting, TakesHorovodsNameWhereItsOwnIsUnset) {
  Environment environment = with("HOROVOD_FUSION_THRESHOLD", "5");
  EXPECT_EQ(read_bytes(environment, "HVD_FUSION_THRESHOLD").value(), 5U);
  environment.set("HVD_FUSION_THRESHOLD", "6");
  EXPECT_EQ(read_bytes(environment, "HVD_FUSION_THRESHOLD").value(), 6U);
  EXPECT_EQ(read_text(with("HOROVOD_TIMELINE", "/t"), "HVD_TIMELINE"), "/t");
  const auto wrong = read_bytes(with("HOROVOD_FUSION_THRESHOLD", "x"), "HVD_FUSION_THRESHOLD");
  EXPECT_TRUE(wrong.status().message().starts_with("HOROVOD_FUSION_THRESHOLD='x' is not "));
}

}  // namespace
}  // namespace hvd
