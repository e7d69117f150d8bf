// SPDX-License-Identifier: Apache-2.0
#include "transport/interfaces.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hvd {
namespace {

using Names = std::vector<std::string>;

std::vector<Interface> ordinary_host() {
  return {{"lo", "127.0.0.1", 8},
          {"eth0", "10.0.0.1", 24, 1000},
          {"ib0", "10.1.0.1", 16, 100'000},
          {"docker0", "172.17.0.1", 16},
          {"eth1", "192.168.7.1", 24, 25'000, false},
          {"eth0", "fe80::1", 64, 1000},
          {"eth0", "2001:db8::1", 64, 1000}};
}

Names addresses_of(const std::vector<Interface>& interfaces) {
  Names names;
  for (const Interface& interface : interfaces) names.push_back(interface.address);
  return names;
}

TEST(Interfaces, OffersTheFastestFirstAndSaysWhatItLeavesOut) {
  const auto choice = choose_interfaces(ordinary_host(), "");
  ASSERT_TRUE(choice.is_ok());
  EXPECT_EQ(addresses_of(choice.value().usable), (Names{"10.1.0.1", "10.0.0.1", "2001:db8::1"}));
  for (const std::string text :
       {"docker0 172.17.0.1 (leads to containers", "eth1 192.168.7.1 (is down)",
        "eth0 fe80::1 (has a link-local address)", "lo 127.0.0.1 (reaches this host alone)"}) {
    EXPECT_NE(choice.value().left_out.find(text), std::string::npos) << choice.value().left_out;
  }
}

TEST(Interfaces, TakesABridgeOnlyWhereThereIsNothingElse) {
  const auto choice =
      choose_interfaces({{"lo", "127.0.0.1", 8}, {"docker0", "172.17.0.1", 16}}, "");
  ASSERT_TRUE(choice.is_ok());
  EXPECT_EQ(addresses_of(choice.value().usable), Names{"172.17.0.1"});
  EXPECT_TRUE(leads_nowhere("docker0"));
  EXPECT_FALSE(leads_nowhere("ib0"));
}

TEST(Interfaces, ObeysTheUser) {
  const auto choice = choose_interfaces(ordinary_host(), "eth0,docker0");
  ASSERT_TRUE(choice.is_ok());
  EXPECT_EQ(addresses_of(choice.value().usable), (Names{"10.0.0.1", "2001:db8::1", "172.17.0.1"}));
  const auto wrong = choose_interfaces(ordinary_host(), "eth7");
  ASSERT_FALSE(wrong.is_ok());
  EXPECT_EQ(wrong.status().code(), Code::kInvalidArgument);
  EXPECT_NE(wrong.status().message().find("eth0 10.0.0.1"), std::string::npos);
  EXPECT_NE(wrong.status().message().find("eth1 192.168.7.1 (down)"), std::string::npos);
  EXPECT_FALSE(choose_interfaces(ordinary_host(), "eth1").is_ok()) << "it is down";
}

TEST(Interfaces, PrefersANetworkThatBothAreIn) {
  const std::vector<Interface> mine = {{"eth0", "10.0.0.1", 24}, {"eth1", "2001:db8::1", 64}};
  const std::vector<Interface> theirs = {
      {"ib0", "10.9.0.2", 24, 100'000}, {"eth1", "2001:db8::2", 64}, {"eth0", "10.0.0.2", 24}};
  EXPECT_EQ(order_addresses(mine, theirs, 0), (Names{"10.0.0.2", "2001:db8::2", "10.9.0.2"}));
  EXPECT_EQ(order_addresses({}, theirs, 0), (Names{"10.9.0.2", "10.0.0.2", "2001:db8::2"}));
}

TEST(Interfaces, SpreadsRailsOverEqualNics) {
  const std::vector<Interface> mine = {{"ib0", "10.0.0.1", 24, 100}, {"ib1", "10.0.1.1", 24, 100}};
  const std::vector<Interface> theirs = {
      {"ib0", "10.0.0.2", 24, 100}, {"ib1", "10.0.1.2", 24, 100}, {"eth0", "192.168.0.2", 24, 1}};
  EXPECT_EQ(rails_between(mine, theirs), 2);
  EXPECT_EQ(order_addresses(mine, theirs, 0), (Names{"10.0.0.2", "10.0.1.2", "192.168.0.2"}));
  EXPECT_EQ(order_addresses(mine, theirs, 1), (Names{"10.0.1.2", "10.0.0.2", "192.168.0.2"}));
  EXPECT_EQ(order_addresses(mine, theirs, 2), order_addresses(mine, theirs, 0));
  EXPECT_EQ(rails_between(mine, {}), 0);
}

TEST(Interfaces, CountsAnInterfaceWithTwoAddressesOnce) {
  const std::vector<Interface> theirs = {{"eth0", "2001:db8::2", 64}, {"eth0", "2001:db8::3", 64}};
  EXPECT_EQ(rails_between({{"eth0", "2001:db8::1", 64}}, theirs), 1);
  EXPECT_EQ(order_addresses({}, theirs, 1), (Names{"2001:db8::2", "2001:db8::3"}));
}

TEST(Interfaces, PublishesTheOnesToTryFirstBeforeTheFastest) {
  const auto all = ordinary_host();
  EXPECT_EQ(published_addresses(all, ""), (Names{"10.1.0.1", "10.0.0.1", "2001:db8::1"}));
  EXPECT_EQ(published_addresses(all, "eth0"), (Names{"10.0.0.1", "2001:db8::1", "10.1.0.1"}));
  EXPECT_EQ(published_addresses(all, "hsn0,eth1"), published_addresses(all, ""));
  EXPECT_EQ(published_addresses(all, "docker0,hsn0").front(), "172.17.0.1");
  EXPECT_EQ(published_addresses({}, "eth0"), Names{"127.0.0.1"});
}

TEST(Interfaces, KnowsThoseOfThisHost) {
  const auto all = interfaces_of_host();
  const auto lo = std::find_if(all.begin(), all.end(),
                               [](const Interface& i) { return i.address == "127.0.0.1"; });
  if (lo == all.end()) GTEST_SKIP() << "no loopback here";
  EXPECT_EQ(lo->prefix_bits, 8);
}

}  // namespace
}  // namespace hvd
