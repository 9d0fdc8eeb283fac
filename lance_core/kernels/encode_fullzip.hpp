// The full-zip layout, writing side (docs/format.md, "Full-zip pages").
#pragma once

#include "fullzip.hpp"

namespace lance {

struct Zipped {
  Block data;
  Block index;               // where each row begins, and the end; empty where it is not needed
  unsigned index_bytes = 0;  // width of a position
};

// Entries are as many as levels, or as values where there are no levels. One with repetition level `max_rep`, or every
// one without these levels, begins a row.
Zipped zip_fixed(Bytes values, size_t width, size_t num_values, Bytes rep, Bytes def, ControlWord control,
                 uint16_t max_rep);
Zipped zip_variable(Bytes offsets, Bytes data, size_t num_values, unsigned length_bits, Bytes rep, Bytes def,
                    ControlWord control, uint16_t max_rep);

}  // namespace lance
