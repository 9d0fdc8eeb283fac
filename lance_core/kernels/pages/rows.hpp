// Row-wise storage: packed structs and fixed-size lists with item validity, split into columns.
#pragma once

#include "base/variable.hpp"

namespace lance {

// Splits rows of members of fixed width, without alignment. Returns a column of num_rows * width bytes per member.
std::vector<Block> split_rows(Bytes rows, size_t num_rows, const std::vector<size_t>& widths);

// Joins the bitmaps of rows, which each begin at a byte, into one of num_rows * bits_per_row bits.
Block join_row_bits(Bytes rows, size_t num_rows, size_t bits_per_row);

// A member of a variable packed struct: `width` bytes, or a length of `length_bits` bits and as many bytes.
struct PackedField {
  size_t width;          // 0 for a member of variable width
  unsigned length_bits;  // 0 for a member of fixed width
};

struct PackedColumn {
  Block fixed;
  VariableValues variable;
};

// Splits rows with Arrow offsets. An empty row is a null struct: it gives zero bytes or an empty value in every column.
std::vector<PackedColumn> split_variable_rows(Bytes offsets, Bytes data, size_t num_rows, unsigned offset_bits,
                                              const std::vector<PackedField>& fields);

}  // namespace lance
