// The full-zip layout, writing side (docs/format.md, "Full-zip pages").
#pragma once

#include "pages/fullzip.hpp"

namespace lance {

struct Zipped {
  Block data;
  Block index;               // start of each row, and the end; empty if no index is needed
  unsigned index_bytes = 0;  // bytes of a position
};

// Zips one entry per level, or one per value without levels. An entry with repetition level `max_rep` begins a row.
// Without repetition levels every entry begins a row.
Zipped zip_fixed(Bytes values, size_t width, size_t num_values, Bytes rep, Bytes def, ControlWord control,
                 uint16_t max_rep);
Zipped zip_variable(Bytes offsets, Bytes data, size_t num_values, unsigned length_bits, Bytes rep, Bytes def,
                    ControlWord control, uint16_t max_rep);

}  // namespace lance
