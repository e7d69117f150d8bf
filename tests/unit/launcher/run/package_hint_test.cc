// SPDX-License-Identifier: Apache-2.0
#include "launcher/run/package_hint.h"

#include <gtest/gtest.h>

#include <set>

namespace hvd {
namespace {

const std::deque<std::string> kNoHvd{"    import hvd.torch as hvd",
                                     "ModuleNotFoundError: No module named 'hvd'"};
const std::deque<std::string> kNoHorovod{"ModuleNotFoundError: No module named 'horovod'"};

std::string hint(const std::deque<std::string>& lines, const std::string& self,
                 const std::set<std::string>& files) {
  return package_hint(lines, "/usr/bin/python3", self,
                      [&files](const std::string& path) { return files.count(path) == 1; });
}

TEST(PackageHint, NamesThePythonOfTheWheel) {
  const std::string place = "/v/lib/python3.11/site-packages/";
  EXPECT_EQ(hint(kNoHvd, place + "hvd/bin/hvdrun", {place + "hvd/__init__.py", "/v/bin/python3"}),
            "the Python of this rank (/usr/bin/python3) has no hvd: that of this hvdrun does; type "
            "/v/bin/python3 in its place");
  EXPECT_EQ(hint(kNoHorovod, place + "hvd/bin/hvdrun", {place + "hvd/__init__.py"}),
            "the Python of this rank (/usr/bin/python3) has no horovod: install hvdrun-horovod "
            "there, or write `import hvd.torch as hvd`");
}

TEST(PackageHint, NamesTheFolderOfAnInstallationAndOfABuildTree) {
  EXPECT_EQ(hint(kNoHvd, "/opt/hvd/bin/hvdrun", {"/opt/hvd/lib64/hvd/python/hvd/__init__.py"}),
            "the Python of this rank (/usr/bin/python3) has no hvd: that of this hvdrun is in "
            "/opt/hvd/lib64/hvd/python: put that folder on PYTHONPATH");
  EXPECT_EQ(
      hint(kNoHorovod, "/src/build/launcher/hvdrun", {"/src/runtime/horovod/horovod/__init__.py"}),
      "the Python of this rank (/usr/bin/python3) has no horovod: that of this hvdrun is in "
      "/src/runtime/horovod: put that folder on PYTHONPATH");
  EXPECT_EQ(hint(kNoHvd, "/usr/local/bin/hvdrun", {}),
            "the Python of this rank (/usr/bin/python3) has no hvd: install hvdrun there");
}

TEST(PackageHint, IsSilentAboutOtherFailures) {
  EXPECT_EQ(hint({"No module named 'hvd_tools'", "No module named 'torch'"}, "/bin/hvdrun", {}),
            "");
  EXPECT_EQ(hint({}, "/bin/hvdrun", {}), "");
}

}  // namespace
}  // namespace hvd
