// Fixed-width values stored as they are.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Values of `width` bytes, chunk after chunk.
Block join_fixed(const Stream& stream, const Counts& counts, size_t width);
// Bitmaps that restart at a byte boundary in every chunk, joined into one.
Block join_bits(const Stream& stream, const Counts& counts);
// `n` bits from bit `start` on, moved to bit 0.
Block copy_bits(Bytes bits, size_t start, size_t n);
// One byte per value, zero or not, to one bit per value.
Block bytes_to_bits(Bytes bytes);
// `n` copies of one value.
Block repeat_value(Bytes value, size_t n);

}  // namespace lance
