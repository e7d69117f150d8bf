// SPDX-License-Identifier: Apache-2.0
#include "base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/settings_text.h"

namespace hvd {
namespace {

using testing::HasSubstr;

TEST(Settings, HaveEachNameOnceAndEachAMeaningAndADefault) {
  std::set<std::string_view> names;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_FALSE(setting.meaning.empty()) << setting.name;
    EXPECT_NE(setting.initial.has_value(), !setting.standard.empty()) << setting.name;
    EXPECT_EQ(find_setting(setting.name), &setting);
  }
  EXPECT_GT(names.size(), 25U);
  EXPECT_EQ(find_setting("HVD_RANK"), nullptr) << "hvdrun writes it, users do not set it";
}

TEST(Settings, HaveWhatTheirKindNeedsAndNoMore) {
  for (const Setting& setting : settings()) {
    const SettingKind kind = setting.kind;
    const bool is_number = kind == SettingKind::kInteger || kind == SettingKind::kSeconds ||
                           kind == SettingKind::kBytes || kind == SettingKind::kSwitch;
    EXPECT_EQ(is_number, setting.is_number()) << setting.name;
    const bool has_words = kind == SettingKind::kChoice || kind == SettingKind::kWords;
    EXPECT_EQ(has_words, !setting.values.empty()) << setting.name;
    if (kind == SettingKind::kSwitch || kind == SettingKind::kSeconds ||
        kind == SettingKind::kBytes) {
      EXPECT_TRUE(setting.initial.has_value()) << setting.name;
    }
    if (kind == SettingKind::kSwitch) {
      EXPECT_EQ(setting.lowest, 0) << setting.name;
      EXPECT_EQ(setting.highest, 1) << setting.name;
    }
    if (setting.initial) {
      EXPECT_GE(*setting.initial, setting.lowest) << setting.name;
      EXPECT_LE(*setting.initial, setting.highest) << setting.name;
    }
    EXPECT_EQ(kind == SettingKind::kInteger, !setting.unit.empty()) << setting.name;
  }
}

TEST(Settings, NameTheirUnit) {
  for (const Setting& setting : settings()) {
    EXPECT_EQ(setting.name.ends_with("_SECONDS"), setting.kind == SettingKind::kSeconds)
        << setting.name;
    if (setting.name.ends_with("_BYTES")) {
      EXPECT_EQ(setting.kind, SettingKind::kBytes) << setting.name;
    }
  }
}

TEST(SettingsText, HasNoMarkdown) {
  EXPECT_EQ(plain_text("see [use beside MPI](../how-to/mpi.md): `mpi`, or [x]"),
            "see use beside MPI: mpi, or x");
}

TEST(SettingsText, SaysWhatASettingTakes) {
  EXPECT_EQ(taken_text(*find_setting("HVD_LINK_TIMEOUT_SECONDS")),
            "a whole number of seconds from 1 to 3600");
  EXPECT_EQ(taken_text(*find_setting("HVD_FUSION_THRESHOLD")), "a whole number of bytes from 0 on");
  EXPECT_EQ(taken_text(*find_setting("HVD_BACKEND")), "one of shm, tcp, mpi, nccl, staged");
}

TEST(SettingsText, HasARowForEachSetting) {
  for (const Setting& setting : settings()) {
    const std::string name(setting.name);
    EXPECT_THAT(settings_table(), HasSubstr("\n| `" + name + "` | "));
    EXPECT_THAT(settings_module(), HasSubstr("        \"" + name + "\",\n"));
  }
}

}  // namespace
}  // namespace hvd
