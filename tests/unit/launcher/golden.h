// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace hvd {

/// Compares `text` with the file `path`. Run the test program with --update to rewrite the
/// files, and review the diff.
inline void expect_golden(const std::string& path, const std::string& text) {
  const std::vector<std::string> arguments = testing::internal::GetArgvs();
  const bool updating =
      std::find(arguments.begin(), arguments.end(), "--update") != arguments.end();
  if (updating) std::ofstream(path) << text;
  std::ifstream file(path);
  const std::string golden((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
  EXPECT_EQ(text, golden) << path << ": run with --update to accept";
}

}  // namespace hvd
