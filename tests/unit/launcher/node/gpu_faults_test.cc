// SPDX-License-Identifier: Apache-2.0
#include "launcher/node/gpu_faults.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <thread>

namespace hvd {
namespace {

using testing::HasSubstr;

/// What is behind an end, once something is known.
std::string await_explanation(const GpuFaults& faults, const std::string& gpu) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  std::string text;
  while (text.empty() && !deadline.has_passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    text = faults.explain_end(gpu, Clock::now());
  }
  return text;
}

TEST(GpuFaults, OfItsGpuExplainAnEndForAMinute) {
  // The library tells of one fault in its life: a test is a process.
  (void)::setenv("HVD_FAKE_NVML_FAULT", "79", 1);
  GpuFaults faults;
  faults.listen(HVD_FAKE_NVML, {"0000:07:00.0", "0000:99:00.0", "MIG-02", "GPU-bb"});
  EXPECT_EQ(await_explanation(faults, "GPU-bb"),
            ", after its GPU GPU-bb reported Xid 79 (the GPU has fallen off the bus)");
  EXPECT_EQ(faults.explain_end("", Clock::now()),
            ", after GPU GPU-bb reported Xid 79 (the GPU has fallen off the bus)");
  EXPECT_EQ(faults.explain_end("0000:07:00.0", Clock::now()), "");
  EXPECT_EQ(faults.explain_end("GPU-bb", Clock::now() + std::chrono::seconds(61)), "");
}

TEST(GpuFaults, OfAnotherInstanceOfItsGpuExplainNothing) {
  (void)::setenv("HVD_FAKE_NVML_FAULT", "94@2", 1);
  GpuFaults faults;
  faults.listen(HVD_FAKE_NVML, {"MIG-00", "MIG-02"});
  EXPECT_THAT(await_explanation(faults, "MIG-02"), HasSubstr("its GPU MIG-02 reported Xid 94 ("));
  EXPECT_EQ(faults.explain_end("MIG-00", Clock::now()), "");
}

TEST(GpuFaults, AreNotHeardOfWithoutTheLibrary) {
  GpuFaults faults;
  faults.listen("libhvd-no-such-library.so", {"GPU-bb"});
  EXPECT_EQ(faults.explain_end("GPU-bb", Clock::now()), "");
  GpuFaults none;
  none.listen(HVD_FAKE_NVML, {});
  EXPECT_EQ(none.explain_end("", Clock::now()), "");
}

TEST(Xid, IsExplainedWhereItIsKnown) {
  EXPECT_THAT(describe_xid(48), HasSubstr("ECC"));
  EXPECT_EQ(describe_xid(999), "Xid 999");
}

}  // namespace
}  // namespace hvd
