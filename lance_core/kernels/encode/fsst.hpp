// FSST, writing side: finding symbols that occur often, and strings as codes for them (docs/format.md, "FSST").
#pragma once

#include "base/variable.hpp"

namespace lance {

// Returns the symbol table of a page, 2312 bytes, trained on a sample of `sample_bytes` that is spread over all values.
// The same values give the same table.
Block train_symbols(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits, size_t sample_bytes);

// Every value as codes of the table. Offsets start at zero.
VariableValues compress_symbols(Bytes table, Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits);

// Bytes of the codes of a sample, and of the sample itself.
struct SampleSize {
  size_t coded_bytes;
  size_t bytes;
};
SampleSize try_symbols(Bytes table, Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits,
                       size_t sample_bytes);

}  // namespace lance
