// Row-wise storage, writing side: packed structs, vectors with item validity, byte streams, bitmaps of chunks.
#pragma once

#include "encode/levels.hpp"
#include "pages/rows.hpp"

namespace lance {

// Rows of fields with fixed byte widths, one column of bytes for each.
Block interleave_rows(const std::vector<Bytes>& columns, const std::vector<size_t>& widths, size_t num_rows);

// A field of a variable packed struct: values of `width` bytes, or values under offsets of `length_bits`.
struct PackedSource {
  size_t width;          // 0 for a variable field
  unsigned length_bits;  // 0 for a fixed field
  Bytes offsets;
  Bytes data;
};

// Rows under 64-bit offsets; a row that is not valid is empty.
VariableValues join_variable_rows(const std::vector<PackedSource>& fields, size_t num_rows, Validity validity);

// Bits of an Arrow bitmap cut into pieces that each start at a byte; the bits behind a piece are zero.
Block cut_bits(Bytes bits, size_t offset, const Counts& counts);

// Byte 0 of all values of a chunk of `chunk_values` values, then byte 1, and so on.
Block split_byte_streams(Bytes values, size_t width, size_t chunk_values);

}  // namespace lance
