// Row-wise storage, writing side: packed structs, fixed-size lists with item validity, byte streams, bitmaps of chunks.
#pragma once

#include "encode/levels.hpp"
#include "pages/rows.hpp"

namespace lance {

// Interleaves columns of fixed width into rows.
Block interleave_rows(const std::vector<Bytes>& columns, const std::vector<size_t>& widths, size_t num_rows);

// A member of a variable packed struct: values of `width` bytes, or values with offsets of `length_bits`.
struct PackedSource {
  size_t width;          // 0 for a member of variable width
  unsigned length_bits;  // 0 for a member of fixed width
  Bytes offsets;
  Bytes data;
};

// Joins members to rows with 64-bit offsets. A row that is not valid is empty.
VariableValues join_variable_rows(const std::vector<PackedSource>& fields, size_t num_rows, Validity validity);

// Cuts an Arrow bitmap into chunks that each begin at a byte. Bits after the end of a chunk are zero.
Block cut_bits(Bytes bits, size_t offset, const Counts& counts);

// Splits the values of chunks of `chunk_values` values: byte 0 of all values, then byte 1, and so on.
Block split_byte_streams(Bytes values, size_t width, size_t chunk_values);

}  // namespace lance
