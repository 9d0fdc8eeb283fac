// Fixed-width values stored as they are.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Throws CorruptData unless every chunk has all of its values, `width` bytes each.
void require_fixed(const Stream& stream, const Counts& counts, size_t width);
// Joins the values of chunks, `width` bytes each.
Block join_fixed(const Stream& stream, const Counts& counts, size_t width);
// Joins bitmaps that begin at a byte boundary in every chunk.
Block join_bits(const Stream& stream, const Counts& counts);
// Returns `n` bits from bit `start` on, moved to bit 0.
Block copy_bits(Bytes bits, size_t start, size_t n);
// Converts one byte per value, zero or not, to one bit per value.
Block bytes_to_bits(Bytes bytes);
// Returns `n` copies of one value.
Block repeat_value(Bytes value, size_t n);

}  // namespace lance
