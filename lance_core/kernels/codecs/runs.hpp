// Run-length encoding: values beside one-byte run lengths.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Writes exactly n values to `out`. The last run may be too long.
template <class T>
void expand_runs_chunk(Bytes values, Bytes lengths, size_t n, T* out, size_t index);

// Splits the block form `u64 size of the values | values | lengths`. The runs must add up to exactly n values.
void split_runs_chunk(Bytes block, size_t n, Bytes& values, Bytes& lengths, size_t index);

Block expand_runs(const Stream& values, const Stream& lengths, const Counts& counts, unsigned word_bits);
void split_runs(const Stream& blocks, const Counts& counts, Stream& values, Stream& lengths);

}  // namespace lance
