// SPDX-License-Identifier: Apache-2.0
#include "base/ieee_arithmetic.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace hvd {

namespace {

#if defined(__SSE__)

// The MXCSR of a new program: all exceptions masked. Its low bits only say what has happened.
constexpr std::uint64_t kUsual = 0x1f80;
constexpr std::uint64_t kHappened = 0x3f;

std::uint64_t control() { return _mm_getcsr() & ~kHappened; }
void set_control(std::uint64_t value) { _mm_setcsr(static_cast<unsigned>(value)); }

#elif defined(__aarch64__)

constexpr std::uint64_t kUsual = 0;

std::uint64_t control() {
  std::uint64_t value = 0;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void set_control(std::uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }

#else

// No framework that we know changes it there.
constexpr std::uint64_t kUsual = 0;

std::uint64_t control() { return kUsual; }
void set_control(std::uint64_t) {}

#endif

}  // namespace

IeeeArithmetic::IeeeArithmetic() : before_(control()), is_changed_(before_ != kUsual) {
  if (is_changed_) set_control(kUsual);
}

IeeeArithmetic::~IeeeArithmetic() {
  if (is_changed_) set_control(before_);
}

}  // namespace hvd
