// Run-length encoding: values beside one-byte run lengths.
#pragma once

#include "common.hpp"
#include "pool.hpp"

namespace lance {

// `out` receives exactly n values; the last run may claim more than is left.
template <class T>
void expand_runs_chunk(Bytes values, Bytes lengths, size_t n, T* out, size_t index);

// The block form `u64 size of the values | values | lengths` cut in two; its runs add up to exactly n values.
void split_runs_chunk(Bytes block, size_t n, Bytes& values, Bytes& lengths, size_t index);

Block expand_runs(const Stream& values, const Stream& lengths, const Counts& counts, unsigned word_bits);
void split_runs(const Stream& blocks, const Counts& counts, Stream& values, Stream& lengths);

}  // namespace lance
