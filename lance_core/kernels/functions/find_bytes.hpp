// Search for a literal in bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/common.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lance {

constexpr size_t kNoPlace = ~size_t{0};

// The time to compare the first and the last byte of a literal, and then all, may grow with its length for each byte of
// the data. Longer literals are left to `memmem`, whose time does not.
constexpr size_t kMostCompared = 256;

// Calls `use` with places of a literal in [from, end) of the data, in order. `use` returns the next place that counts,
// which is behind the given one; kNoPlace ends the search. The literal is not empty. Bytes between `end` and the end of
// the data may be looked at, but do not count.
template <class Use>
inline void each_place(Bytes data, size_t from, size_t end, const std::string& literal, Use use) {
  size_t size = literal.size();
  if (end - from < size) return;
  const auto* wanted = reinterpret_cast<const uint8_t*>(literal.data());
  size_t last = end - size;  // the last place where it can be
  size_t at = from;
  if (size > kMostCompared) {
    while (at <= last) {
      const void* found = memmem(data.data + at, end - at, wanted, size);
      if (found == nullptr) return;
      at = use(static_cast<size_t>(static_cast<const uint8_t*>(found) - data.data));
    }
    return;
  }
#if defined(__SSE2__)
  // Few places have both the first and the last byte of a literal.
  constexpr size_t kStep = sizeof(__m128i);
  const __m128i first_byte = _mm_set1_epi8(static_cast<char>(wanted[0]));
  const __m128i last_byte = _mm_set1_epi8(static_cast<char>(wanted[size - 1]));
  size_t next = from;
  for (; at <= last && at + size - 1 + kStep <= data.size; at += kStep) {
    __m128i firsts = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data.data + at));
    __m128i lasts = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data.data + at + size - 1));
    __m128i both = _mm_and_si128(_mm_cmpeq_epi8(firsts, first_byte), _mm_cmpeq_epi8(lasts, last_byte));
    auto found = static_cast<uint32_t>(_mm_movemask_epi8(both));
    if (found == 0) continue;
    for (; found != 0; found &= found - 1) {
      size_t place = at + static_cast<size_t>(std::countr_zero(found));
      if (place > last) return;
      if (place >= next && (size <= 2 || std::memcmp(data.data + place, wanted, size) == 0)) {
        next = use(place);
        if (next > last) return;
      }
    }
    if (next > at + kStep) at = next - kStep;
  }
#endif
  while (at <= last) {
    const void* found = std::memchr(data.data + at, wanted[0], last - at + 1);
    if (found == nullptr) return;
    at = static_cast<size_t>(static_cast<const uint8_t*>(found) - data.data);
    at = std::memcmp(data.data + at, wanted, size) == 0 ? use(at) : at + 1;
  }
}

// Returns the first place of a literal, see `each_place`; kNoPlace if it is not there.
inline size_t find_bytes(Bytes data, size_t from, size_t end, const std::string& literal) {
  if (literal.empty()) return from;
  size_t place = kNoPlace;
  each_place(data, from, end, literal, [&](size_t found) {
    place = found;
    return kNoPlace;
  });
  return place;
}

}  // namespace lance
