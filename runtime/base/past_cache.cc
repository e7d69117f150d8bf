// SPDX-License-Identifier: Apache-2.0
#include "base/past_cache.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hvd {

#if defined(__SSE2__)

void copy_past_cache(void* target, const void* source, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  auto* to = static_cast<std::byte*>(target);
  const auto* from = static_cast<const std::byte*>(source);
  // A line that is written in full needs no reading: begin at one.
  const std::size_t ahead = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  const std::size_t head = std::min(ahead, bytes);
  if (head > 0) std::memcpy(to, from, head);
  std::size_t done = head;
  for (; done + kLine <= bytes; done += kLine) {
    const auto* in = reinterpret_cast<const __m128i*>(from + done);
    auto* out = reinterpret_cast<__m128i*>(to + done);
    const __m128i a = _mm_loadu_si128(in);
    const __m128i b = _mm_loadu_si128(in + 1);
    const __m128i c = _mm_loadu_si128(in + 2);
    const __m128i d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  // Such stores are in no order with those that announce them to others, unless told.
  _mm_sfence();
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
}

#else

void copy_past_cache(void* target, const void* source, std::size_t bytes) {
  if (bytes > 0) std::memcpy(target, source, bytes);
}

#endif

}  // namespace hvd
