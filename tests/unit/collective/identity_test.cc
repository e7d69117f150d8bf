// SPDX-License-Identifier: Apache-2.0
#include "collective/identity.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "base/format.h"
#include "collective/reduce.h"

namespace hvd {
namespace {

/// Bytes that are neither an identity nor a NaN in any type; of bool 0 and 1.
std::vector<std::byte> elements(DataType dtype, std::size_t count) {
  std::vector<std::byte> bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(dtype == DataType::kBool ? i % 2 : 0x21 + i % 24);
  }
  return bytes;
}

TEST(Identity, ChangesNoResult) {
  constexpr std::size_t kCount = 12;
  int checked = 0;
  for (int number = 0; number < kDataTypeCount; ++number) {
    const auto dtype = static_cast<DataType>(number);
    for (int op_number = 0; op_number <= static_cast<int>(ReduceOp::kBitXor); ++op_number) {
      const auto op = static_cast<ReduceOp>(op_number);
      if (op == ReduceOp::kAverage || op == ReduceOp::kAdasum) continue;
      if (!check_reducible(Allreduce{op}, dtype).is_ok()) continue;
      const std::vector<std::byte> given = elements(dtype, kCount);
      std::vector<std::byte> identity(given.size());
      fill_identity(op, dtype, identity.data(), kCount);
      for (const bool comes_first : {true, false}) {
        const void* sources[] = {given.data(), given.data()};
        sources[comes_first ? 0 : 1] = identity.data();
        std::vector<std::byte> result(given.size());
        reduce_into({.dtype = dtype, .op = op}, ReduceStage::kWhole, result.data(), sources,
                    kCount);
        EXPECT_EQ(result, given) << name_of(op) << " of " << name_of(dtype);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, 150);
}

}  // namespace
}  // namespace hvd
