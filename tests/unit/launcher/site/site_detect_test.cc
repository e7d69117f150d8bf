// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_detect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/site/pattern.h"

namespace hvd {
namespace {

/// Four sites, each of which claims the machine by another thing.
std::vector<SiteEntry> entries() {
  std::vector<SiteEntry> sites(4);
  sites[0].id = "by-domain";
  sites[0].detect.domains = {"idris.fr"};
  sites[1].id = "by-host";
  sites[1].detect.hostname = "^jean-zay[0-9]+";
  sites[2].id = "by-cluster";
  sites[2].detect.cluster_names = {"jean-zay"};
  sites[3].id = "by-variable";
  sites[3].detect.variables = {{"NERSC_HOST", "perlmutter"}};
  sites[3].detect.system_names = {"juwels"};
  return sites;
}

std::string claim(const Environment& environment, const HostFacts& host) {
  const std::vector<SiteEntry> sites = entries();
  const auto found = claim_site(sites, environment, host);
  if (!found.is_ok()) return found.status().message();
  if (!found.value()) return "none";
  return found.value()->entry->id + ": " + found.value()->evidence;
}

TEST(SiteDetect, LooksInTheStatedOrder) {
  Environment environment;
  HostFacts host;
  EXPECT_EQ(claim(environment, host), "none");
  host.domains = {"cluster.idris.fr"};
  EXPECT_EQ(claim(environment, host), "by-domain: the domain cluster.idris.fr lies in idris.fr");
  host.hostname = "jean-zay3";
  EXPECT_EQ(claim(environment, host), "by-host: the host name jean-zay3 matches ^jean-zay[0-9]+");
  host.cluster = "lumi";
  EXPECT_EQ(claim(environment, host).substr(0, 7), "by-host");
  host.cluster = "jean-zay";
  EXPECT_EQ(claim(environment, host), "by-cluster: slurm.conf says ClusterName=jean-zay");
  environment.set("SLURM_CLUSTER_NAME", "jean-zay");
  EXPECT_EQ(claim(environment, host), "by-cluster: SLURM_CLUSTER_NAME=jean-zay");
  environment.set("NERSC_HOST", "perlmutter");
  EXPECT_EQ(claim(environment, host), "by-variable: NERSC_HOST=perlmutter");
  environment.set("NERSC_HOST", "cori");
  environment.set("SYSTEMNAME", "juwels");
  EXPECT_EQ(claim(environment, host), "by-variable: SYSTEMNAME=juwels");
}

TEST(SiteDetect, TakesNoPartOfADomain) {
  HostFacts host;
  host.domains = {"notidris.fr", "idris.fr.example"};
  EXPECT_EQ(claim({}, host), "none");
  EXPECT_EQ(read_host_facts("login1.idris.fr", {}).domains, std::vector<std::string>{"idris.fr"});
}

TEST(Pattern, SaysWhyARegularExpressionIsWrong) {
  const std::string message = pattern_matches("(a", "a").status().message();
  const std::string known = "the regular expression '(a' is wrong: ";
  EXPECT_THAT(message, testing::StartsWith(known));
  EXPECT_GT(message.size(), known.size()) << "the C library's reason";
}

}  // namespace
}  // namespace hvd
