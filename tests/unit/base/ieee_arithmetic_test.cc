// SPDX-License-Identifier: Apache-2.0
#include "base/ieee_arithmetic.h"

#include <gtest/gtest.h>

#include <limits>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace hvd {
namespace {

/// What a product that is subnormal comes to on this thread.
float smallest() {
  volatile float tiny = std::numeric_limits<float>::min();
  return tiny * 0.5F;
}

TEST(IeeeArithmetic, ChangesNothingOfAUsualThread) {
  EXPECT_GT(smallest(), 0.0F);
  {
    const IeeeArithmetic usual;
    EXPECT_GT(smallest(), 0.0F);
  }
  EXPECT_GT(smallest(), 0.0F);
}

#if defined(__SSE__)
TEST(IeeeArithmetic, KeepsSubnormalsWhereTheThreadDropsThem) {
  const unsigned before = _mm_getcsr();
  const unsigned dropping = 0x8040 | before;
  _mm_setcsr(dropping);
  const float dropped = smallest();
  float kept = 0;
  {
    const IeeeArithmetic usual;
    kept = smallest();
  }
  const float after = smallest();
  _mm_setcsr(before);
  EXPECT_EQ(dropped, 0.0F);
  EXPECT_GT(kept, 0.0F);
  EXPECT_EQ(after, 0.0F);
}
#endif

}  // namespace
}  // namespace hvd
