// Strings and binaries, writing side: mini-block chunks of offsets and bytes (docs/format.md, "Variable").
#pragma once

#include "base/variable.hpp"

namespace lance {

struct VariableChunks {
  Counts counts;
  Block data;
  std::vector<int64_t> lengths;  // bytes of each chunk, a multiple of the offset width
};

// Chunks of 2, 4, 8 ... values, as many as take at most `target_bytes` and at most `max_values`.
VariableChunks chunk_variable(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits, size_t target_bytes,
                              size_t max_values);

// The longest of the values.
size_t longest_value(Bytes offsets, size_t num_values, unsigned offset_bits);

// Arrow offsets that start anywhere, moved to start at zero.
Block rebase_offsets(Bytes offsets, size_t num_values, unsigned offset_bits);

}  // namespace lance
