// Split block Bloom filters (docs/format.md, "Index files").
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"
#include "encode/levels.hpp"

namespace lance {

// Values of an Arrow array from `start` on: of `width` bytes each, or with offsets if `offset_bits` is not 0.
struct HashedValues {
  Bytes offsets;
  Bytes data;
  unsigned offset_bits;
  size_t width;
  Validity validity;
  size_t start;
  size_t num_values;
};

// Returns a filter of `num_blocks` blocks of 32 bytes with all values that are not null.
Block bloom_filter(const HashedValues& values, size_t num_blocks);

}  // namespace lance
