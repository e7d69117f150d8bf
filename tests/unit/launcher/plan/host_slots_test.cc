// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/host_slots.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hvd {
namespace {

std::string shown(const Result<std::vector<HostSlots>>& hosts) {
  if (!hosts.is_ok()) return hosts.status().message();
  std::string text;
  for (const HostSlots& host : hosts.value()) text += format_text("{} {};", host.host, host.slots);
  return text;
}

TEST(HostSlots, ReadsHostsWithAndWithoutNumbers) {
  EXPECT_EQ(shown(parse_host_slots("a:2\r\n\n  b \n# c:9\nd:0 # none\n::1", 3)),
            "a 2;b 3;d 0;::1 3;");
  EXPECT_EQ(shown(parse_host_slots("", 1)), "");
}

TEST(HostSlots, SaysWhichLineIsWrong) {
  for (const char* line :
       {"a:", ":2", "a:-1", "a:2x", "a b:2", "a\x01", "a:65537", "a:9999999999999999999"}) {
    EXPECT_EQ(shown(parse_host_slots(line, 1)),
              std::string("--host-discovery-script: it printed '") + line +
                  "', and each line is to be HOST or HOST:SLOTS");
  }
}

TEST(HostSlots, KnowsThisMachineByItsNames) {
  const SlotsHere here =
      slots_of({{"localhost", 1}, {"box.cluster", 2}, {"box", 4}, {"boxer", 8}, {"10.0.0.1", 16}},
               "box.example.org");
  EXPECT_EQ(here.slots, 7);
  EXPECT_TRUE(here.names_hosts);
  EXPECT_FALSE(slots_of({}, "box").names_hosts);
  EXPECT_EQ(here.others, (std::vector<std::string>{"boxer", "10.0.0.1"}));
  EXPECT_EQ(describe_others(here),
            "on boxer, 10.0.0.1 hvdrun starts nothing: ranks on other hosts need a job of Slurm");
}

}  // namespace
}  // namespace hvd
