// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvd {
namespace {

using testing::HasSubstr;
using Truth = Verdict::Truth;

SiteFacts lumi() {
  SiteFacts facts;
  facts.nodes = 2;
  facts.gpus_per_node = 8;
  facts.nccl = "2.27.3";
  facts.plugin_found = true;
  facts.container = false;
  facts.fabric = "slingshot-11";
  facts.gpu_vendor = "amd";
  facts.partition = "standard-g";
  facts.mixed_ports = false;
  facts.step_network = "job_vni,disable_rdzv_get";
  return facts;
}

struct Case {
  std::string condition;
  Truth known;    ///< With the facts of lumi().
  Truth unknown;  ///< With two nodes and nothing else known.
};

TEST(Condition, IsTrueFalseOrUnknown) {
  const Case cases[] = {
      {"always", Truth::kTrue, Truth::kTrue},
      {"historical", Truth::kFalse, Truth::kFalse},
      {"nodes>1", Truth::kTrue, Truth::kTrue},
      {"nodes=1", Truth::kFalse, Truth::kFalse},
      {"gpus>0", Truth::kTrue, Truth::kFalse},
      {"nccl>=2.27", Truth::kTrue, Truth::kUnknown},
      {"nccl>=2.27.4", Truth::kFalse, Truth::kUnknown},
      {"nccl<2.4", Truth::kFalse, Truth::kUnknown},
      {"nccl=2.27.3", Truth::kTrue, Truth::kUnknown},
      {"plugin_found", Truth::kTrue, Truth::kUnknown},
      {"not plugin_found", Truth::kFalse, Truth::kUnknown},
      {"not container", Truth::kTrue, Truth::kUnknown},
      {"fabric=slingshot-11", Truth::kTrue, Truth::kUnknown},
      {"fabric=infiniband", Truth::kFalse, Truth::kUnknown},
      {"gpu_vendor=amd", Truth::kTrue, Truth::kUnknown},
      {"partition=standard-g", Truth::kTrue, Truth::kUnknown},
      {"mixed_ports", Truth::kFalse, Truth::kUnknown},
      {"step_network=disable_rdzv_get", Truth::kTrue, Truth::kUnknown},
      {"step_network=disable_rdzv", Truth::kFalse, Truth::kUnknown},
      {"nodes>1 and plugin_found", Truth::kTrue, Truth::kUnknown},
      {"plugin_found and nodes=1", Truth::kFalse, Truth::kFalse},
      {"  nodes>=2   and not  gpu_vendor=nvidia ", Truth::kTrue, Truth::kUnknown},
  };
  SiteFacts nothing;
  nothing.nodes = 2;
  for (const Case& item : cases) {
    const auto condition = parse_condition(item.condition);
    ASSERT_TRUE(condition.is_ok()) << condition.status().message();
    EXPECT_EQ(evaluate(condition.value(), lumi()).truth, item.known) << item.condition;
    EXPECT_EQ(evaluate(condition.value(), nothing).truth, item.unknown) << item.condition;
  }
}

TEST(Condition, SaysWhichTermDecided) {
  const auto reason = [](const std::string& text, const SiteFacts& facts) {
    return evaluate(parse_condition(text).value(), facts).reason;
  };
  EXPECT_EQ(reason("nodes>1 and plugin_found", {}), "nodes>1: nodes is 1");
  EXPECT_EQ(reason("nccl>=3 and nodes>1", lumi()), "nccl>=3: NCCL is 2.27.3");
  EXPECT_EQ(reason("not container and nccl>=2", {}),
            "not container: it is not known whether this is a container");
  EXPECT_EQ(reason("always", {}), "");
}

TEST(Condition, RefusesWhatItCannotRead) {
  for (const std::string text :
       {"", "and", "not", "nodes", "nodes>", "nodes>x", "nodes>-1", "nodes=>1", "nccl>=2.x",
        "fabric>a", "fabric=", "always=1", "not always", "not historical", "nodes>1 and",
        "nodes>1 gpus>0", "not not container", "raining", "nodes>99999999999"}) {
    const auto condition = parse_condition(text);
    ASSERT_FALSE(condition.is_ok()) << text;
    EXPECT_THAT(condition.status().message(), HasSubstr("'" + text + "' is not a condition"));
    EXPECT_THAT(condition.status().message(), HasSubstr("write always, historical, nodes>N"));
  }
}

}  // namespace
}  // namespace hvd
