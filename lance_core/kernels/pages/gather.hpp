// Dictionary pages: lookup of values by index.
#pragma once

#include "base/variable.hpp"

namespace lance {

struct GatheredBits {
  Block bits;
  size_t num_unset = 0;
};

// Checks that all indices, unsigned numbers of `index_bits` bits, are below `num_items`.
void check_indices(Bytes indices, size_t num_values, unsigned index_bits, size_t num_items);
Block gather_fixed(Bytes indices, size_t num_values, unsigned index_bits, Bytes items, size_t width);
// Returns the bits of a bitmap of the items, one per index.
GatheredBits gather_bits(Bytes indices, size_t num_values, unsigned index_bits, Bytes bits, size_t num_items);
VariableValues gather_variable(Bytes indices, size_t num_values, unsigned index_bits, Bytes offsets, Bytes data,
                               size_t num_items, unsigned offset_bits);

}  // namespace lance
