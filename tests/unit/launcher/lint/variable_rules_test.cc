// SPDX-License-Identifier: Apache-2.0
#include "launcher/lint/variable_rules.h"

#include <gtest/gtest.h>

#include "launcher/lint/rule_table.h"

namespace hvd {
namespace {

using Setting = std::pair<std::string, std::string>;

struct VariableCase {
  const char* what;
  std::vector<Setting> settings;
  std::vector<std::string> found;  ///< "severity rule variable", in order.
  const MachineFacts* machine = nullptr;
};

std::vector<std::string> found_in(const std::vector<Setting>& settings,
                                  const MachineFacts* machine) {
  std::vector<SetVariable> variables;
  for (const auto& [name, value] : settings) variables.push_back({.name = name, .value = value});
  std::vector<std::string> found;
  for (const Finding& finding : check_variables(variables, machine)) {
    EXPECT_EQ(lint_rule(finding.rule).id, finding.rule);
    EXPECT_FALSE(finding.why.empty());
    EXPECT_FALSE(finding.fix.empty());
    found.push_back(std::string(severity_name(finding.severity)) + " " + std::string(finding.rule) +
                    " " + finding.variable);
  }
  return found;
}

const MachineFacts kInfiniBand{{"eth0", "ib0", "lo"}, {"mlx5_0", "mlx5_1"}, "2.30.7"};
const MachineFacts kSlingshot{{"hsn0", "hsn1", "lo", "nmn0"}, {}, "2.21.5"};
const MachineFacts kAries{{"ipogif0", "lo", "rsip0"}, {}, "2.3.7"};

TEST(VariableRules, Names) {
  const VariableCase cases[] = {
      {"nothing of ours", {{"PATH", "/bin"}, {"SLURM_JOB_ID", "1"}}, {}},
      {"known", {{"NCCL_DEBUG", "INFO"}, {"UCX_TLS", "rc,sm"}}, {}},
      {"mistyped", {{"NCCL_SOCKET_IFNAM", "ib0"}}, {"warning unknown-variable NCCL_SOCKET_IFNAM"}},
      {"unknown in a complete family",
       {{"NCCL_X_Y_Z_W", "1"}},
       {"note unknown-variable NCCL_X_Y_Z_W"}},
      {"unknown elsewhere", {{"MPICH_QQQQQQQQQ", "1"}}, {}},
      {"removed", {{"NCCL_IB_CUDA_SUPPORT", "1"}}, {"error removed-variable NCCL_IB_CUDA_SUPPORT"}},
      {"removed, but not from this one", {{"NCCL_IB_CUDA_SUPPORT", "1"}}, {}, &kAries},
      {"removed from this one",
       {{"NCCL_LL_THRESHOLD", "1"}},
       {"error removed-variable NCCL_LL_THRESHOLD"},
       &kInfiniBand},
      {"renamed and gone",
       {{"NCCL_IB_GDR_LEVEL", "3"}},
       {"error renamed-variable NCCL_IB_GDR_LEVEL"}},
      {"renamed and read", {{"NCCL_MIN_NRINGS", "4"}}, {"note renamed-variable NCCL_MIN_NRINGS"}},
      {"PyTorch's",
       {{"NCCL_ASYNC_ERROR_HANDLING", "1"}},
       {"note renamed-variable NCCL_ASYNC_ERROR_HANDLING"}},
      {"deprecated",
       {{"NCCL_MAX_NCHANNELS", "4"}},
       {"note deprecated-variable NCCL_MAX_NCHANNELS"}},
      {"too new",
       {{"NCCL_RAS_ENABLE", "1"}},
       {"warning too-new-variable NCCL_RAS_ENABLE"},
       &kSlingshot},
      {"Horovod's, without effect",
       {{"HOROVOD_CYCLE_TIME", "5"}, {"HOROVOD_AUTOTUNE", "1"}},
       {"note variable-without-effect HOROVOD_CYCLE_TIME",
        "note variable-without-effect HOROVOD_AUTOTUNE"}},
      {"Horovod's, read here too",
       {{"HOROVOD_FUSION_THRESHOLD", "1"}, {"HOROVOD_TIMELINE", "t.json"}},
       {}},
      {"Horovod's, taken by the package horovod", {{"HOROVOD_LOG_LEVEL", "INFO"}}, {}},
      {"old enough", {{"NCCL_RAS_ENABLE", "1"}}, {}, &kInfiniBand},
  };
  for (const VariableCase& one : cases) {
    EXPECT_EQ(found_in(one.settings, one.machine), one.found) << one.what;
  }
}

TEST(VariableRules, Values) {
  const VariableCase cases[] = {
      {"level", {{"NCCL_NET_GDR_LEVEL", "PHB"}, {"NCCL_P2P_LEVEL", "5"}}, {}},
      {"no level", {{"NCCL_NET_GDR_LEVEL", "PBH"}}, {"error wrong-value NCCL_NET_GDR_LEVEL"}},
      {"level in small letters", {{"NCCL_P2P_LEVEL", "nvl"}}, {"error wrong-case NCCL_P2P_LEVEL"}},
      {"case does not matter", {{"NCCL_DEBUG", "info"}}, {}},
      {"no level of debug", {{"NCCL_DEBUG", "DEBUG"}}, {"error wrong-value NCCL_DEBUG"}},
      {"word for a switch", {{"NCCL_IB_DISABLE", "true"}}, {"error wrong-value NCCL_IB_DISABLE"}},
      {"number for a switch", {{"NCCL_IB_DISABLE", "0"}}, {}},
      {"out of range", {{"NCCL_IB_TIMEOUT", "50"}}, {"warning wrong-value NCCL_IB_TIMEOUT"}},
      {"hexadecimal", {{"NCCL_IB_TC", "0x6a"}}, {}},
      {"list", {{"NCCL_ALGO", "ring,collnetdirect;allreduce:tree,^nvls"}}, {}},
      {"excluded", {{"NCCL_PROTO", "^LL128"}}, {}},
      {"no protocol", {{"NCCL_PROTO", "LL256"}}, {"error wrong-value NCCL_PROTO"}},
      {"flag", {{"FI_CXI_RX_MATCH_MODE", "hybrid"}, {"FI_OPX_TID", "yes"}}, {}},
      {"no flag", {{"FI_OPX_TID", "enabled"}}, {"error wrong-value FI_OPX_TID"}},
      {"quotes inside", {{"NCCL_NET", "\"AWS Libfabric\""}}, {"error quoted-value NCCL_NET"}},
      {"blank inside", {{"NCCL_NET", "AWS Libfabric"}}, {}},
      {"empty", {{"NCCL_DEBUG", ""}}, {}},
      {"a unit", {{"HVD_FUSION_THRESHOLD", "64MB"}}, {"error wrong-value HVD_FUSION_THRESHOLD"}},
      {"many bytes", {{"HVD_FUSION_THRESHOLD", "99999999999"}}, {}},
      {"empty number of ours", {{"HVD_ARENA_BYTES", ""}}, {}},
      {"hexadecimal of ours", {{"HVD_ARENA_BYTES", "0x10"}}, {"error wrong-value HVD_ARENA_BYTES"}},
      {"ours out of range", {{"HVD_TCP_SOCKETS", "17"}}, {"error wrong-value HVD_TCP_SOCKETS"}},
      {"a switch of ours", {{"HVD_GPU_GRAPHS", "2"}}, {"error wrong-value HVD_GPU_GRAPHS"}},
      {"levels and categories of the log", {{"HVD_LOG", "info,nccl,buckets"}, {"HVD_LOG", ""}}, {}},
      {"no word of the log", {{"HVD_LOG", "nccl,infoo"}}, {"error wrong-value HVD_LOG"}},
      {"a level in capitals", {{"HVD_LOG", "INFO"}}, {"error wrong-case HVD_LOG"}},
      {"a backend", {{"HVD_BACKEND", "nccl"}, {"HVD_BACKEND", ""}}, {}},
      {"no backend", {{"HVD_BACKEND", "nccll"}}, {"error wrong-value HVD_BACKEND"}},
      {"a backend in capitals", {{"HVD_BACKEND", "NCCL"}}, {"error wrong-case HVD_BACKEND"}},
      {"hexadecimal for Python",
       {{"HVD_CHECK_REPLICAS", "0x10"}},
       {"error wrong-value HVD_CHECK_REPLICAS"}},
      {"a blank in the log", {{"HVD_LOG", "info, nccl"}}, {"error wrong-value HVD_LOG"}},
  };
  for (const VariableCase& one : cases) {
    EXPECT_EQ(found_in(one.settings, one.machine), one.found) << one.what;
  }
}

TEST(VariableRules, SaysWhatAWrongNumberOfLibhvdLeadsTo) {
  const auto why = [](const char* name, const char* value) {
    const auto findings = check_variable_values({{.name = name, .value = value}});
    return findings.size() == 1 ? findings.front().why : "";
  };
  EXPECT_EQ(
      why("HVD_FUSION_THRESHOLD", "64MB"),
      "'64MB' is not a whole number; hvd.init() fails on every rank; it is in bytes, without a "
      "unit");
  EXPECT_EQ(why("HVD_SHARE_GPU", "2"), "2 is outside 0 to 1; hvd.init() fails on every rank");
  EXPECT_EQ(why("HVD_FUSION_THRESHOLD", "-1"),
            "-1 is below 0; hvd.init() fails on every rank; it is in bytes, without a unit");
  EXPECT_EQ(why("HVD_WAIT_IN_BACKWARD", "2"),
            "2 is outside 0 to 1; the optimizer refuses it on every rank");
  EXPECT_EQ(why("HVD_FULL_TRACEBACK", "full"),
            "'full' is not a whole number; all but 0 and nothing counts as 1");
  EXPECT_EQ(why("NCCL_BUFFSIZE", "many"),
            "'many' is not a whole number; the default is used instead");
}

TEST(VariableRules, Conflicts) {
  const VariableCase cases[] = {
      {"InfiniBand off and chosen",
       {{"NCCL_IB_DISABLE", "1"}, {"NCCL_IB_HCA", "mlx5_0"}},
       {"warning conflicting-variables NCCL_IB_HCA"}},
      {"sockets and InfiniBand",
       {{"NCCL_NET", "Socket"}, {"NCCL_IB_TC", "106"}, {"NCCL_IB_DISABLE", "1"}},
       {"warning conflicting-variables NCCL_IB_TC"}},
      {"not off", {{"NCCL_IB_DISABLE", "0"}, {"NCCL_IB_HCA", "mlx5_0"}}, {}},
      {"too many sockets",
       {{"NCCL_SOCKET_NTHREADS", "16"}, {"NCCL_NSOCKS_PERTHREAD", "8"}},
       {"warning conflicting-variables NCCL_NSOCKS_PERTHREAD"}},
      {"just as many", {{"NCCL_SOCKET_NTHREADS", "8"}, {"NCCL_NSOCKS_PERTHREAD", "8"}}, {}},
      {"least above most",
       {{"NCCL_MIN_CTAS", "16"}, {"NCCL_MAX_CTAS", "8"}},
       {"warning conflicting-variables NCCL_MIN_CTAS"}},
      {"subsystems alone",
       {{"NCCL_DEBUG_SUBSYS", "NET"}},
       {"note conflicting-variables NCCL_DEBUG_SUBSYS"}},
      {"mapping without policy",
       {{"MPICH_OFI_NIC_POLICY", "NUMA"}, {"MPICH_OFI_NIC_MAPPING", "0:0"}},
       {"warning conflicting-variables MPICH_OFI_NIC_MAPPING"}},
      {"PSM2 without CUDA",
       {{"PSM2_GPUDIRECT", "1"}},
       {"warning conflicting-variables PSM2_GPUDIRECT"}},
  };
  for (const VariableCase& one : cases) {
    EXPECT_EQ(found_in(one.settings, one.machine), one.found) << one.what;
  }
}

TEST(VariableRules, Devices) {
  const VariableCase cases[] = {
      {"interface as adapter",
       {{"NCCL_IB_HCA", "ipogif0"}},
       {"error wrong-device-kind NCCL_IB_HCA"}},
      {"interface as adapter, there",
       {{"NCCL_IB_HCA", "ib0"}},
       {"error wrong-device-kind NCCL_IB_HCA"},
       &kInfiniBand},
      {"adapter as interface",
       {{"NCCL_SOCKET_IFNAME", "mlx5_0"}},
       {"error wrong-device-kind NCCL_SOCKET_IFNAME"}},
      {"elsewhere anything else goes",
       {{"NCCL_IB_HCA", "=mlx5_9:1"}, {"NCCL_SOCKET_IFNAME", "hsn"}},
       {}},
      {"by beginning", {{"NCCL_IB_HCA", "mlx5"}}, {}, &kInfiniBand},
      {"exact", {{"NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"}}, {}, &kInfiniBand},
      {"exact, not there",
       {{"NCCL_IB_HCA", "=mlx5"}},
       {"error no-such-device NCCL_IB_HCA"},
       &kInfiniBand},
      {"excluded", {{"NCCL_IB_HCA", "^mlx5_1"}}, {}, &kInfiniBand},
      {"all excluded",
       {{"NCCL_IB_HCA", "^mlx5"}},
       {"error no-such-device NCCL_IB_HCA"},
       &kInfiniBand},
      {"no adapters",
       {{"NCCL_IB_HCA", "mlx5_0"}},
       {"error no-such-device NCCL_IB_HCA"},
       &kSlingshot},
      {"interfaces by beginning", {{"NCCL_SOCKET_IFNAME", "hsn"}}, {}, &kSlingshot},
      {"interface not there",
       {{"NCCL_SOCKET_IFNAME", "=hsn"}},
       {"error no-such-interface NCCL_SOCKET_IFNAME"},
       &kSlingshot},
      {"excluded interfaces", {{"NCCL_SOCKET_IFNAME", "^docker,lo"}}, {}, &kInfiniBand},
      {"UCX, one is there", {{"UCX_NET_DEVICES", "mlx5_0:1,mlx5_9:1"}}, {}, &kInfiniBand},
      {"UCX, none is",
       {{"UCX_NET_DEVICES", "mlx5_9:1"}},
       {"error no-such-device UCX_NET_DEVICES"},
       &kInfiniBand},
      {"adapter as interface of ours",
       {{"HVD_INTERFACE", "mlx5_0"}},
       {"error wrong-device-kind HVD_INTERFACE"}},
      {"interfaces of ours", {{"HVD_BOOTSTRAP_INTERFACE", "ib0,eth0"}}, {}, &kInfiniBand},
      {"interface of ours that is not there",
       {{"HVD_INTERFACE", "ib"}},
       {"error no-such-interface HVD_INTERFACE"},
       &kInfiniBand},
      {"Gloo takes whole names",
       {{"GLOO_SOCKET_IFNAME", "ib"}},
       {"error no-such-interface GLOO_SOCKET_IFNAME"},
       &kInfiniBand},
  };
  for (const VariableCase& one : cases) {
    EXPECT_EQ(found_in(one.settings, one.machine), one.found) << one.what;
  }
}

TEST(VariableRules, TheTwoLinesOfThePizDaintCourse) {
  EXPECT_EQ(found_in({{"NCCL_IB_HCA", "ipogif0"}, {"NCCL_IB_CUDA_SUPPORT", "1"}}, nullptr),
            (std::vector<std::string>{"error removed-variable NCCL_IB_CUDA_SUPPORT",
                                      "error wrong-device-kind NCCL_IB_HCA"}));
}

}  // namespace
}  // namespace hvd
