// Levels as bit masks, 64 levels per word: structure is found by counting bits instead of branching on entries.
#pragma once

#include "base/common.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lance {

constexpr size_t kWord = 64;

inline uint64_t low_bits(size_t n) { return n >= kWord ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

inline size_t count_bits(uint64_t word) { return static_cast<size_t>(__builtin_popcountll(word)); }

// Returns the position of the set bit that has `rank` set bits below it. There must be one.
inline size_t select_bit(uint64_t word, size_t rank) {
  for (; rank != 0; --rank) {
    word &= word - 1;
  }
  return static_cast<size_t>(__builtin_ctzll(word));
}

// Returns a mask of the next n <= 64 u16 levels: bit k is set if level k is at most `limit`. Bits from n on are 0.
inline __attribute__((always_inline)) uint64_t at_most(const uint8_t* levels, size_t n, uint16_t limit) {
  uint64_t mask = 0;
  size_t i = 0;
#if defined(__SSE2__)
  const __m128i bound = _mm_set1_epi16(static_cast<short>(limit));
  const __m128i zero = _mm_setzero_si128();
  for (; i + 16 <= n; i += 16) {
    __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels + 2 * i));
    __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels + 2 * i + 16));
    // Saturating subtraction is zero exactly where level <= limit.
    low = _mm_cmpeq_epi16(_mm_subs_epu16(low, bound), zero);
    high = _mm_cmpeq_epi16(_mm_subs_epu16(high, bound), zero);
    auto sixteen = static_cast<uint16_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
    mask |= static_cast<uint64_t>(sixteen) << i;
  }
#endif
  for (; i < n; ++i) {
    mask |= static_cast<uint64_t>(load<uint16_t>(levels + 2 * i) <= limit) << i;
  }
  return mask;
}

}  // namespace lance
