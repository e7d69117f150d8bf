// SPDX-License-Identifier: Apache-2.0
#include "base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace hvd {
namespace {

using testing::HasSubstr;

Environment with(std::string name, std::string value) {
  Environment environment;
  environment.set(std::move(name), std::move(value));
  return environment;
}

TEST(Settings, HaveEachNameOnceAndEachAMeaningAndADefault) {
  std::set<std::string_view> names;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_FALSE(setting.meaning.empty()) << setting.name;
    EXPECT_FALSE(setting.standard.empty()) << setting.name;
    const bool has_range =
        setting.kind == SettingKind::kNumber || setting.kind == SettingKind::kSwitch;
    EXPECT_EQ(has_range, setting.lowest < setting.highest) << setting.name;
    const bool has_words =
        setting.kind == SettingKind::kChoice || setting.kind == SettingKind::kWords;
    EXPECT_EQ(has_words, !setting.values.empty()) << setting.name;
    EXPECT_EQ(find_setting(setting.name), &setting);
  }
  EXPECT_GT(names.size(), 25U);
  EXPECT_EQ(find_setting("HVD_RANK"), nullptr) << "hvdrun writes it, users do not set it";
}

TEST(Settings, AreReadByTheirRange) {
  struct Case {
    std::string name;
    std::string value;
    std::optional<long long> number;  ///< None: refused.
  };
  const Case cases[] = {
      {"HVD_LINK_TIMEOUT_SECONDS", "1", 1},
      {"HVD_LINK_TIMEOUT_SECONDS", "3600", 3600},
      {"HVD_LINK_TIMEOUT_SECONDS", "0", {}},
      {"HVD_LINK_TIMEOUT_SECONDS", "3601", {}},
      {"HVD_LINK_TIMEOUT_SECONDS", "", {}},
      {"HVD_LINK_TIMEOUT_SECONDS", "3s", {}},
      {"HVD_TCP_SOCKETS", "16", 16},
      {"HVD_TCP_SOCKETS", "17", {}},
      {"HVD_SHARE_GPU", "1", 1},
      {"HVD_SHARE_GPU", "yes", {}},
      {"HVD_FUSION_THRESHOLD", "9223372036854775807", 9223372036854775807},
      {"HVD_FUSION_THRESHOLD", "64M", {}},
  };
  for (const Case& one : cases) {
    const auto read = read_number(with(one.name, one.value), one.name);
    EXPECT_EQ(read.is_ok(), one.number.has_value()) << one.name << "=" << one.value;
    if (read.is_ok()) {
      EXPECT_EQ(read.value(), one.number);
      continue;
    }
    EXPECT_EQ(read.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(one.name + "='" + one.value + "'"));
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("from "));
  }
}

TEST(Settings, HaveTheirStandardWhereTheyAreUnset) {
  EXPECT_FALSE(read_number({}, "HVD_LINK_TIMEOUT_SECONDS").value().has_value());
  EXPECT_FALSE(read_switch({}, "HVD_SHARE_GPU").value());
  EXPECT_TRUE(read_switch({}, "HVD_NCCL_REGISTER").value());
  EXPECT_FALSE(read_switch(with("HVD_NCCL_REGISTER", "0"), "HVD_NCCL_REGISTER").value());
  EXPECT_EQ(read_text({}, "HVD_BACKEND"), "");
}

TEST(Settings, AreReadByHorovodsNamesWhereTheirOwnAreUnset) {
  Environment environment = with("HOROVOD_FUSION_THRESHOLD", "5");
  EXPECT_EQ(read_number(environment, "HVD_FUSION_THRESHOLD").value(), 5);
  environment.set("HVD_FUSION_THRESHOLD", "6");
  EXPECT_EQ(read_number(environment, "HVD_FUSION_THRESHOLD").value(), 6);
  EXPECT_EQ(read_text(with("HOROVOD_TIMELINE", "/t"), "HVD_TIMELINE"), "/t");
  const auto wrong = read_number(with("HOROVOD_FUSION_THRESHOLD", "x"), "HVD_FUSION_THRESHOLD");
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("HOROVOD_FUSION_THRESHOLD='x'"));
}

TEST(Settings, AreSaidWithoutMarkdown) {
  EXPECT_EQ(plain_text("see [use beside MPI](../how-to/mpi.md): `mpi`, or [x]"),
            "see use beside MPI: mpi, or [x]");
}

}  // namespace
}  // namespace hvd
