// SPDX-License-Identifier: Apache-2.0
// Every file of environments/ holds the variables of one situation; its line "#= " says what
// derive_identity makes of them, the lines "# " where they are from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/format.h"
#include "topology/identity.h"

namespace hvd {
namespace {

struct Situation {
  std::string origin;
  std::string expected;
  std::map<std::string, std::string, std::less<>> variables;
};

Situation read_situation(const std::filesystem::path& path) {
  Situation situation;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#= ")) {
      situation.expected = line.substr(3);
    } else if (line.starts_with("# ")) {
      situation.origin += line.substr(2) + "\n";
    } else if (const std::size_t sign = line.find('='); sign != std::string::npos) {
      situation.variables[line.substr(0, sign)] = line.substr(sign + 1);
    } else {
      ADD_FAILURE() << path << ": '" << line << "' is not NAME=VALUE";
    }
  }
  return situation;
}

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(HVD_ENVIRONMENTS_DIR)) {
    if (entry.path().extension() == ".env") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string number(int value, int unknown) {
  return value == unknown ? "?" : std::to_string(value);
}

std::string describe(const Result<std::optional<Identity>>& result) {
  if (!result.is_ok()) return "error: " + result.status().message();
  if (!result.value()) return "none";
  const Identity& identity = *result.value();
  std::string text = format_text("{}: rank {} of {}, local rank {} of {}, node {} of {}",
                                 identity.source, identity.rank, number(identity.size, 0),
                                 number(identity.local_rank, -1), number(identity.local_size, -1),
                                 number(identity.node, -1), number(identity.node_count, -1));
  std::string around;
  for (const IdentityClaim& claim : identity.details) {
    if (claim.outer) around += (around.empty() ? "; around it: " : ", ") + claim.source;
  }
  EXPECT_TRUE(describe_identity(identity).ends_with(around));
  return text + around;
}

TEST(IdentityEnvironments, GiveWhatTheirFilesSay) {
  const auto all = files();
  ASSERT_GE(all.size(), 60U);
  for (const auto& path : all) {
    SCOPED_TRACE(path.filename().string());
    const Situation situation = read_situation(path);
    EXPECT_FALSE(situation.origin.empty());
    const std::string found = describe(derive_identity(Environment(situation.variables)));
    if (situation.expected.starts_with("error: ")) {
      EXPECT_TRUE(found.starts_with("error: ")) << found;
      EXPECT_THAT(found, ::testing::HasSubstr(situation.expected.substr(7)));
    } else {
      EXPECT_EQ(found, situation.expected);
    }
  }
}

TEST(IdentityEnvironments, ShellsOfAnAllocationAreKnownAsSuch) {
  for (const auto& path : files()) {
    const std::string name = path.stem().string();
    const Environment environment(read_situation(path).variables);
    const bool shell = name.starts_with("slurm_batch_shell") || name == "slurm_salloc_shell" ||
                       name.starts_with("slurm_het_salloc") || name == "slurm_het_batch_shell" ||
                       name.starts_with("slurm_interactive") ||
                       name.starts_with("slurm_leak_other_node");
    if (!environment.has("SLURM_JOB_ID")) continue;
    EXPECT_EQ(in_slurm_shell(environment), shell) << name;
    EXPECT_EQ(in_slurm_step(environment), !shell) << name;
  }
}

}  // namespace
}  // namespace hvd
