// Kernels of index searches: hashes of values, and binary searches in sorted byte strings.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Byte strings one after the other: string i is [offsets[i], offsets[i + 1]) of the data. The offsets have 32 or 64
// bits, and ascend.
struct Strings {
  Bytes data;
  Bytes offsets;
  unsigned offset_bits;
};

// The 64-bit xxHash of each string, seed 0, as uint64.
Block hash_strings(const Strings& strings);

// For each needle the number of strings that are less (or, with `after`, not greater), as int64. The strings ascend
// by their bytes.
Block search_strings(const Strings& strings, const Strings& needles, bool after);

}  // namespace lance
