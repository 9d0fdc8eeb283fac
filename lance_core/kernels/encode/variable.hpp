// Strings and binaries, writing side: mini-block chunks of offsets and bytes (docs/format.md, "Variable").
#pragma once

#include "base/variable.hpp"

namespace lance {

struct VariableChunks {
  Counts counts;
  Block data;
  std::vector<int64_t> lengths;  // bytes of each chunk, a multiple of the offset width
};

// Divides values into chunks of 2, 4, 8 ... values: as many as fit into `target_bytes`, at most `max_values`.
VariableChunks chunk_variable(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits, size_t target_bytes,
                              size_t max_values);

// Returns the bytes of the longest value.
size_t longest_value(Bytes offsets, size_t num_values, unsigned offset_bits);

// Returns Arrow offsets moved to start at zero.
Block rebase_offsets(Bytes offsets, size_t num_values, unsigned offset_bits);

}  // namespace lance
