// SPDX-License-Identifier: Apache-2.0
// One program for many files of tests, which would all read the same headers: `world agreement
// join` runs those of agreement_test.cc and join_test.cc, `world` all of them. --gtest_filter
// chooses among these.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>
#include <string_view>

namespace hvd {
namespace {

/// "/a/join_test.cc": "join".
std::string name_of_file(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  return std::string(path.substr(0, path.rfind("_test.cc")));
}

/// Leaves the tests of other files out; false where one of these has none.
bool keep_files(const std::set<std::string>& wanted) {
  std::set<std::string> missing = wanted;
  std::string kept;
  std::string others;
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      const std::string file = name_of_file(test.file());
      missing.erase(file);
      (wanted.count(file) > 0 ? kept : others) +=
          std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  for (const std::string& file : missing) {
    std::printf("failed: this program has no test of %s_test.cc\n", file.c_str());
  }
  const std::string given = GTEST_FLAG_GET(filter);  // negative patterns follow a '-'
  const std::string separator = given.find('-') == std::string::npos ? "-" : ":";
  GTEST_FLAG_SET(filter, given == "*" ? kept : given + separator + others);
  return missing.empty();
}

}  // namespace
}  // namespace hvd

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  if (argc > 1 && !hvd::keep_files({argv + 1, argv + argc})) return 2;
  return RUN_ALL_TESTS();
}
