// Values at the set bits of a bitmap: those of the rows that a filter keeps.
#pragma once

#include "base/bits.hpp"
#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Returns the values of `width` bytes whose bits of [start, start + n) of `mask` are set. There are n values, one after
// the other.
Block kept_values(Bytes values, size_t width, Bytes mask, size_t start, size_t n);
// Writes the values that `kept_values` returns to `out`, and returns where they end. The caller has checked the sizes;
// up to `kKeptSlack` bytes more may be written.
uint8_t* keep_values(const uint8_t* values, size_t width, Bytes mask, size_t start, size_t n, uint8_t* out);
constexpr size_t kKeptSlack = 32;

// Does the same as `kept_values` for values of one bit. That of the bit `start` of `mask` is bit `first` of `bits`.
Block kept_bits(Bytes bits, size_t first, Bytes mask, size_t start, size_t n);
// Appends the bits that `kept_bits` returns. The caller has checked that both bitmaps have them.
void append_kept_bits(BitWriter& writer, Bytes bits, size_t first, Bytes mask, size_t start, size_t n);

}  // namespace lance
