// FSST, writing side: training of symbols, and coding of strings (docs/format.md, "FSST").
#pragma once

#include "base/variable.hpp"

namespace lance {

// Returns the symbol table of a page (2312 bytes), trained on a sample of `sample_bytes` from all values. The same
// values give the same table.
Block train_symbols(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits, size_t sample_bytes);

// Codes every value with the table. Offsets start at zero.
VariableValues compress_symbols(Bytes table, Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits);

// Size of a sample, with and without coding.
struct SampleSize {
  size_t coded_bytes;
  size_t bytes;
};
SampleSize try_symbols(Bytes table, Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits,
                       size_t sample_bytes);

}  // namespace lance
