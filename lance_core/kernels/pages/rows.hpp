// Row-wise storage: packed structs and fixed-size lists with item validity, split into columns.
#pragma once

#include "base/variable.hpp"

namespace lance {

// Rows of fields with fixed byte widths, no alignment. One column of num_rows * width bytes for each field.
std::vector<Block> split_rows(Bytes rows, size_t num_rows, const std::vector<size_t>& widths);

// A bitmap per row, each starting at a byte boundary, joined into one of num_rows * bits_per_row bits.
Block join_row_bits(Bytes rows, size_t num_rows, size_t bits_per_row);

// A field of a variable packed struct: `width` bytes, or a length of `length_bits` bits and that many bytes.
struct PackedField {
  size_t width;          // 0 for a variable field
  unsigned length_bits;  // 0 for a fixed field
};

struct PackedColumn {
  Block fixed;
  VariableValues variable;
};

// Rows under Arrow offsets. An empty row is a null struct: zero bytes or an empty value in every column.
std::vector<PackedColumn> split_variable_rows(Bytes offsets, Bytes data, size_t num_rows, unsigned offset_bits,
                                              const std::vector<PackedField>& fields);

}  // namespace lance
