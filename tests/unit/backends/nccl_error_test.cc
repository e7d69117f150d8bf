// SPDX-License-Identifier: Apache-2.0
#include "backends/nccl/nccl_error.h"

#include <gmock/gmock.h>

namespace hvd {
namespace {

using testing::HasSubstr;

constexpr ShmRoom kRoom{.total = std::uint64_t{64} << 20, .free = std::uint64_t{3} << 20};

struct MappingCase {
  ncclResult_t result;
  Code connecting;
  Code running;
  bool has_hint;  ///< While connecting.
};

constexpr MappingCase kMapping[] = {
    {ncclUnhandledCudaError, Code::kSystem, Code::kSystem, false},
    {ncclSystemError, Code::kSystem, Code::kSystem, true},
    {ncclInternalError, Code::kInternal, Code::kInternal, false},
    {ncclInvalidArgument, Code::kInternal, Code::kInternal, false},
    {ncclInvalidUsage, Code::kSystem, Code::kInternal, true},
    {ncclRemoteError, Code::kPeerLost, Code::kPeerLost, false},
};

TEST(NcclError, SaysWhatACallerCanDoForEveryResult) {
  ASSERT_EQ(std::size(kMapping), static_cast<std::size_t>(ncclRemoteError))
      << "a line for each failure that NCCL had by then";
  for (const MappingCase& expected : kMapping) {
    SCOPED_TRACE(expected.result);
    EXPECT_EQ(code_of(expected.result, NcclPhase::kConnecting), expected.connecting);
    EXPECT_EQ(code_of(expected.result, NcclPhase::kRunning), expected.running);
    EXPECT_EQ(!hint_of(expected.result, NcclPhase::kConnecting, kRoom).empty(), expected.has_hint);
  }
}

TEST(NcclError, TakesWhatItDoesNotKnowAsADefect) {
  const auto unknown = static_cast<ncclResult_t>(15);
  EXPECT_EQ(code_of(unknown, NcclPhase::kConnecting), Code::kInternal);
  EXPECT_EQ(hint_of(unknown, NcclPhase::kRunning, kRoom), "");
}

TEST(NcclError, HintsAtSharedMemoryWhileRanksConnect) {
  EXPECT_THAT(hint_of(ncclSystemError, NcclPhase::kConnecting, kRoom),
              AllOf(HasSubstr("NCCL_DEBUG=INFO"), HasSubstr("/dev/shm, which has 64 MiB here"),
                    HasSubstr("3 MiB of them free"), HasSubstr("--shm-size")));
  for (const std::string& hint : {hint_of(ncclSystemError, NcclPhase::kConnecting, {}),
                                  hint_of(ncclSystemError, NcclPhase::kRunning, kRoom)}) {
    EXPECT_THAT(hint, AllOf(HasSubstr("NCCL_DEBUG=INFO"), testing::Not(HasSubstr("/dev/shm"))));
  }
}

TEST(NcclError, ReadsHowMuchSharedMemoryThereIs) {
  const ShmRoom room = shm_room("/");
  EXPECT_GT(room.total, 0U);
  EXPECT_LE(room.free, room.total);
  EXPECT_EQ(shm_room("/nonexistent").total, 0U);
}

}  // namespace
}  // namespace hvd
