// SPDX-License-Identifier: Apache-2.0
#include "base/copy_bytes.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace hvd {
namespace {

using Copy = void (*)(void* target, const void* source, std::size_t bytes);

class CopyBytes : public testing::TestWithParam<Copy> {};

TEST_P(CopyBytes, CopiesWhateverAndNoMore) {
  std::vector<unsigned char> from(5000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 7 + 1);
  for (const std::size_t begin : {0U, 1U, 17U, 63U, 64U}) {
    for (const std::size_t bytes :
         {0U, 1U, 63U, 64U, 65U, 130U, 300U, 2047U, 2048U, 2111U, 4900U}) {
      std::vector<unsigned char> to(from.size(), 0);
      GetParam()(to.data() + begin, from.data() + 3, bytes);
      for (std::size_t i = 0; i < to.size(); ++i) {
        const bool is_inside = i >= begin && i < begin + bytes;
        ASSERT_EQ(to[i], is_inside ? from[3 + i - begin] : 0) << begin << " " << bytes << " " << i;
      }
    }
  }
}

TEST_P(CopyBytes, NothingNeedsNoMemory) { GetParam()(nullptr, nullptr, 0); }

INSTANTIATE_TEST_SUITE_P(Both, CopyBytes, testing::Values(&copy_bytes, &copy_past_cache));

}  // namespace
}  // namespace hvd
