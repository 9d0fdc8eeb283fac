// Sums of table entries that the half bytes of codes select, for 64 rows at once.
//
// A half byte selects one of 16 floats. They fit into one register of AVX-512, and one instruction looks up 16 rows in
// it, where other processors read memory for each row.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lance {

constexpr size_t kHalfLookupRows = 64;

// Whether this processor has the instructions of `half_lookups`.
bool has_half_lookups();

// Writes the sums of 64 rows. `table` has 32 floats per byte of a row: those of the low half, then those of the high
// half. `codes` has all first bytes of the rows, then all second bytes, ... The entries of both halves of a byte are
// added first, then those of the bytes, in order.
void half_lookups(float* sums, const float* table, size_t bytes_per_row, const uint8_t* codes);

}  // namespace lance
