// Run lengths, writing side (docs/format.md, "Run length").
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

constexpr size_t kLongestRun = 255;

// Counts the runs of equal words. A run of more than 255 words counts as several runs.
template <class T>
size_t count_runs(const uint8_t* values, size_t n);

// Writes the value and the length of each run.
template <class T>
void write_runs(const uint8_t* values, size_t n, uint8_t* run_values, uint8_t* run_lengths);

struct RunChunks {
  Counts counts;
  Block values;
  Block lengths;
  std::vector<int64_t> num_runs;  // per chunk
};

// Encodes runs in chunks of up to `chunk_values` values (a power of two). A chunk has fewer values, but at least two,
// if its runs would take more than `chunk_bytes`.
RunChunks encode_runs(Bytes values, unsigned word_bits, size_t chunk_values, size_t chunk_bytes);

}  // namespace lance
