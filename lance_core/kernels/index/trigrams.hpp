// Trigrams of texts for n-gram indices (docs/format.md, "Index files").
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

struct Trigrams {
  Block tokens;  // u32
  Block rows;    // u32: position of the text with the token
};

// Returns the distinct trigrams of each text. Characters other than ASCII letters and digits are in no trigram.
Trigrams find_trigrams(Bytes offsets, Bytes data, size_t n, unsigned offset_bits);

}  // namespace lance
