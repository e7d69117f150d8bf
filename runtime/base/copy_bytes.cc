// SPDX-License-Identifier: Apache-2.0
#include "base/copy_bytes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hvd {

#if defined(__SSE2__)

namespace {

constexpr std::size_t kLine = 64;
/// glibc's own (x86_rep_movsb_threshold): below it copies by vectors, too.
constexpr std::size_t kLeastBytes = 2048;

bool has_slow_rep_movsb() {
  static const bool is_amd = __builtin_cpu_is("amd");
  return is_amd;
}

/// Copies line by line of the target, which `store` writes, four vectors a line.
template <typename Store>
void copy_lines(std::byte* to, const std::byte* from, std::size_t bytes, const Store& store) {
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
    store(out, a);
    store(out + 1, b);
    store(out + 2, c);
    store(out + 3, d);
  }
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace

void copy_bytes(void* target, const void* source, std::size_t bytes) {
  if (bytes >= kLeastBytes && has_slow_rep_movsb()) {
    return copy_lines(static_cast<std::byte*>(target), static_cast<const std::byte*>(source), bytes,
                      [](__m128i* to, __m128i value) { _mm_store_si128(to, value); });
  }
  if (bytes > 0) std::memcpy(target, source, bytes);
}

void copy_past_cache(void* target, const void* source, std::size_t bytes) {
  copy_lines(static_cast<std::byte*>(target), static_cast<const std::byte*>(source), bytes,
             [](__m128i* to, __m128i value) { _mm_stream_si128(to, value); });
  // Such stores are in no order with those that announce them to others, unless told.
  _mm_sfence();
}

#else

void copy_bytes(void* target, const void* source, std::size_t bytes) {
  if (bytes > 0) std::memcpy(target, source, bytes);
}

void copy_past_cache(void* target, const void* source, std::size_t bytes) {
  copy_bytes(target, source, bytes);
}

#endif

}  // namespace hvd
