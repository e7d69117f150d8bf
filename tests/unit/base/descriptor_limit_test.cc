// SPDX-License-Identifier: Apache-2.0
#include "base/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace hvd {
namespace {

TEST(DescriptorLimit, IsRaisedWhereNeededAndNoFurtherThanUseful) {
  struct Case {
    DescriptorLimit now;
    std::size_t more;
    std::size_t soft;  ///< 0: refused.
  };
  constexpr std::size_t kBillion = 1'000'000'000;
  for (const Case& each : {Case{{1024, 4096, 20}, 100, 1024}, Case{{64, 4096, 20}, 100, 4096},
                           Case{{1024, kBillion, 20}, 2000, 4104},
                           Case{{1024, kBillion, 20}, 1000, 4096}, Case{{152, 4096, 20}, 100, 152},
                           Case{{64, 200, 20}, 100, 200}, Case{{64, 100, 20}, 100, 0}}) {
    const auto soft = choose_soft_limit(each.now, each.more);
    EXPECT_EQ(soft.value_or(0), each.soft) << each.now.hard << " " << each.more;
    if (each.soft != 0) continue;
    EXPECT_NE(soft.status().message().find("20 of 64 files are open (hard limit 100)"),
              std::string::npos)
        << soft.status().message();
  }
}

TEST(DescriptorLimit, CountsWhatIsOpen) {
  const std::size_t before = descriptor_limit().open;
  const UniqueFd one(::dup(2));
  const UniqueFd other(::dup(2));
  EXPECT_EQ(descriptor_limit().open, before + 2);
}

TEST(DescriptorLimit, IsRaisedInThisProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 64;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const bool raised = reserve_descriptors(200).is_ok() && descriptor_limit().soft >= 232;
    ::_exit(raised || limit.rlim_max < 300 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace hvd
