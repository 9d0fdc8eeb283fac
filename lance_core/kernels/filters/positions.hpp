// Positions of the set bits of a bitmap, such as the rows that a filter keeps.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Throws CorruptData unless a bitmap has the bits [start, start + n).
void check_bits(Bytes bits, size_t start, size_t n);
// Returns the number of set bits of [start, start + n), which the caller has checked.
size_t count_bits(Bytes bits, size_t start, size_t n);
// Returns the positions (int64, ascending) of the set bits of [start, start + n). That of bit `start` is `first`; the
// caller has checked that the last one fits.
Block set_positions(Bytes bits, size_t start, size_t n, int64_t first);
// Returns whether at least one bit, and at least this share of the bits, is set in each block of `block_bits` bits of
// [start, start + n). The last block may be shorter.
bool has_dense_blocks(Bytes bits, size_t start, size_t n, size_t block_bits, double least_share);
// Returns a bitmap of n bits, all set but those at `positions` (uint32, each below n).
Block bits_except(Bytes positions, size_t n);

}  // namespace lance
