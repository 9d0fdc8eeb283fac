// Sorting of the values of an index together with the keys of their rows.
#pragma once

#include <vector>

#include "base/common.hpp"
#include "base/pool.hpp"
#include "base/variable.hpp"

namespace lance {

// Sorts pairs of a value and a row key (u64 each) by value. `values` and `rows` have the pairs in several parts.
// Returns all values in order, and then their rows. Rows with equal values keep their order.
Block sort_rows(const std::vector<Bytes>& values, const std::vector<Bytes>& rows);

struct SortedStrings {
  VariableValues strings;
  Block rows;
};

// Sorts `n` strings of bytes, and the row keys (u64) that belong to them. Rows with equal strings keep their order.
SortedStrings sort_variable(Bytes offsets, Bytes data, Bytes rows, size_t n, unsigned offset_bits);

}  // namespace lance
