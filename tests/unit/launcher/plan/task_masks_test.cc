// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/task_masks.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace hvd {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

/// The masks of `size` ranks as local rank `rank` with the CPUs `mine` knows them; "-": unknown.
std::string masks(const Variables& variables, std::string_view mine, int rank, int size) {
  const auto result = task_masks(Environment(variables), parse_cpu_set(mine).value(), rank, size);
  std::string text;
  for (const CpuSet& mask : result) {
    if (!text.empty()) text += "|";
    text += mask.empty() ? "-" : format_cpu_set(mask);
  }
  return text;
}

Variables list(const std::string& text, const std::string& type = "mask_cpu:") {
  return {{"SLURM_CPU_BIND_LIST", text}, {"SLURM_CPU_BIND_TYPE", type}};
}

TEST(TaskMasks, ReadsWhatSlurmDid) {
  EXPECT_EQ(masks({}, "0-3", 1, 2), "0-3|0-3");
  EXPECT_EQ(masks(list("0x0F,0xF0"), "4-7", 1, 2), "0-3|4-7");
  EXPECT_EQ(masks(list("0x000000000F000000000F,0x00000000F000000000F0"), "0-3,40-43", 0, 2),
            "0-3,40-43|4-7,44-47");
  // One mask for all, and a list that begins anew.
  EXPECT_EQ(masks(list("0xFF,0xFF"), "0-7", 0, 2), "0-7|0-7");
  EXPECT_EQ(masks(list("0x3,0xC"), "0-1", 2, 4), "0-1|2-3|0-1|2-3");
}

TEST(TaskMasks, KnowsOnlyItsOwnWhereTheListDoesNotTell) {
  // A list of CPUs, one that is not a list, one that does not fit what the task has.
  EXPECT_EQ(masks(list("1,0", "map_cpu:"), "0", 1, 2), "-|0");
  EXPECT_EQ(masks(list("0xZ,0x1"), "2", 0, 2), "2|-");
  EXPECT_EQ(masks(list("0x3,0xC"), "5", 0, 2), "5|-");
  EXPECT_EQ(masks(list("0x3,0xC,0x3"), "5", 0, 3), "5|-|5");
}

/// As masks(), of ranks that a launcher with the CPUs `launcher` started.
std::string masks_by(std::string_view launcher, std::string_view mine, int rank, int size) {
  const CpuSet outer = launcher.empty() ? CpuSet() : parse_cpu_set(launcher).value();
  std::string text;
  for (const CpuSet& mask : masks_by_launcher(outer, parse_cpu_set(mine).value(), rank, size)) {
    if (!text.empty()) text += "|";
    text += mask.empty() ? "-" : format_cpu_set(mask);
  }
  return text;
}

TEST(MasksByLauncher, AreSharedWhereNobodyIsBound) {
  EXPECT_EQ(masks_by("0-7", "0-7", 1, 2), "0-7|0-7");
  EXPECT_EQ(masks_by("", "3", 1, 2), "3|3");
}

TEST(MasksByLauncher, AreSharedByAsManyAsMustWhereRanksAreBound) {
  EXPECT_EQ(masks_by("0-7", "1", 1, 2), "-|1");            // to cores
  EXPECT_EQ(masks_by("0-7", "4-7", 1, 2), "-|4-7");        // to sockets, one each
  EXPECT_EQ(masks_by("0-7", "4-7", 2, 4), "-|-|4-7|4-7");  // two each
  EXPECT_EQ(masks_by("0-7", "0-3", 1, 3), "0-3|0-3|-");    // it may be alone there, or not
  EXPECT_EQ(masks_by("0-7", "4-7", 2, 3), "-|4-7|4-7");
  EXPECT_EQ(masks_by("0-7", "0-6", 0, 1), "0-6");
}

}  // namespace
}  // namespace hvd
