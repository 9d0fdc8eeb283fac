// Sorting of the values of an index together with the keys of their rows.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

struct SortedRows {
  Block values;  // u64, ascending
  Block rows;    // u64; rows with equal values keep their order
};

// Sorts pairs of a value and a row key (u64 each) by value.
SortedRows sort_rows(Bytes values, Bytes rows);

// Returns the positions (u32) of `n` strings of bytes in ascending order. Equal strings keep their order.
Block sort_variable(Bytes offsets, Bytes data, size_t n, unsigned offset_bits);

}  // namespace lance
