// Special copies: short copies in steps of whole words for decompressors, and large copies that bypass the caches.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/common.hpp"

namespace lance {

// Number of bytes that short copies may write after the end.
constexpr size_t kCopySlack = 32;

inline void copy16(uint8_t* to, const uint8_t* from) {
  uint64_t low = load<uint64_t>(from), high = load<uint64_t>(from + 8);
  store(to, low);
  store(to + 8, high);
}

// Reads and writes up to 15 bytes too many.
inline void copy_wide(uint8_t* to, const uint8_t* from, size_t n) {
  for (const uint8_t* end = to + n; to < end; to += 16, from += 16) {
    copy16(to, from);
  }
}

// Copies the bytes [begin, end) of some data, and returns where the copy ends. Writes up to 15 bytes too many.
inline uint8_t* copy_part(uint8_t* to, Bytes data, size_t begin, size_t end) {
  if (data.size - end >= 15) {
    copy_wide(to, data.data + begin, end - begin);
  } else {
    copy_bytes(to, data.data + begin, end - begin);
  }
  return to + (end - begin);
}

// Copies `n` bytes from `distance` bytes before. The ranges may overlap. Writes up to 15 bytes too many.
inline void repeat_bytes(uint8_t* to, size_t distance, size_t n) {
  const uint8_t* from = to - distance;
  if (distance >= 16) {
    copy_wide(to, from, n);
    return;
  }
  const uint8_t* end = to + n;
  if (distance < 8) {
    for (size_t i = 0; i < 8; ++i) {
      to[i] = from[i];
    }
    // The bytes repeat at every multiple of the distance. At a multiple of 8 or more, whole words can be copied.
    constexpr uint8_t kWordApart[8] = {0, 8, 8, 9, 8, 10, 12, 14};
    to += 8;
    from = to - kWordApart[distance];
  }
  for (; to < end; to += 8, from += 8) {
    store(to, load<uint64_t>(from));
  }
}

// Results of this size no longer fit into the caches when their reader comes. Non-temporal stores write them in half
// the time, because the overwritten memory is not read first.
constexpr size_t kPastCaches = size_t{4} << 20;

// memcpy with non-temporal stores. `end_past_caches` must follow the last call.
inline void copy_past_caches(uint8_t* to, const uint8_t* from, size_t n) {
#if defined(__SSE2__)
  size_t head = (0 - reinterpret_cast<uintptr_t>(to)) % 16;
  if (n >= head) {
    copy_bytes(to, from, head);
    to += head;
    from += head;
    n -= head;
    for (; n >= 16; n -= 16, to += 16, from += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    }
  }
#endif
  copy_bytes(to, from, n);
}

inline void end_past_caches() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace lance
