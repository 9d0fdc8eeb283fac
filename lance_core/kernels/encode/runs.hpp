// Run lengths, writing side (docs/format.md, "Run length").
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

constexpr size_t kLongestRun = 255;

// Counts the runs of equal words. A run of more than 255 words counts as several.
template <class T>
size_t count_runs(const uint8_t* values, size_t n);

// The value and the length of each run.
template <class T>
void write_runs(const uint8_t* values, size_t n, uint8_t* run_values, uint8_t* run_lengths);

struct RunChunks {
  Counts counts;
  Block values;
  Block lengths;
  std::vector<int64_t> num_runs;  // per chunk
};

// Chunks of up to `chunk_values` values (a power of two), fewer where the runs of a chunk would take more than
// `chunk_bytes`. At least two values each.
RunChunks encode_runs(Bytes values, unsigned word_bits, size_t chunk_values, size_t chunk_bytes);

}  // namespace lance
