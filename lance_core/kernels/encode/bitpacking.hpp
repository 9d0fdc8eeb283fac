// Bit packing, writing side: groups of 1024 values in transposed order (docs/format.md, "Bit packing").
#pragma once

#include "codecs/bitpacking.hpp"

namespace lance {

// Packs the lowest `bits` bits of 1024 values. `out` has room for packed_bytes(bits) bytes.
template <class T>
void pack_group(const T* values, unsigned bits, uint8_t* out);

// Returns the size of n values at a fixed width. The last group is packed if it is smaller than its raw words.
template <class T>
size_t out_of_line_bytes(size_t n, unsigned bits);

template <class T>
void pack_out_of_line_chunk(const uint8_t* values, size_t n, unsigned bits, uint8_t* out);

Block pack_out_of_line(Bytes values, unsigned word_bits, unsigned bits);

struct PackedChunks {
  Block data;
  std::vector<int64_t> lengths;  // bytes of each chunk of 1024 values
};

// Packs values as chunks of a page. Each group begins with its bit width.
PackedChunks pack_inline(Bytes values, unsigned word_bits);

// Measures of words from which their encoding is chosen.
struct WordSurvey {
  size_t packed_bytes;   // in chunks of inline bit packing
  size_t num_runs;       // runs of equal values of any length
  unsigned highest_bit;  // bits that the largest value needs
  uint64_t least;        // least word as a signed or unsigned number, found in the same pass
  uint64_t most;
};

WordSurvey survey_words(Bytes values, unsigned word_bits, bool is_signed);

}  // namespace lance
