// Values at the set bits of a bitmap: those of the rows that a filter keeps.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Returns the values of `width` bytes whose bits of [start, start + n) of `mask` are set. There are n values, one after
// the other.
Block kept_values(Bytes values, size_t width, Bytes mask, size_t start, size_t n);
// Does the same for values of one bit. That of the bit `start` of `mask` is bit `first` of `bits`.
Block kept_bits(Bytes bits, size_t first, Bytes mask, size_t start, size_t n);

}  // namespace lance
