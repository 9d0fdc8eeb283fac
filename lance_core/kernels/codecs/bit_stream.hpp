// Dense bit streams: numbers of any number of bits, one after the other (docs/format.md, "2.0").
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Returns `n` numbers of `bits` bits from bit `start` on, LSB first, as words of 8, 16, 32 or 64 bits. Numbers are
// extended with zeros or, if `is_signed`, with their highest bit.
Block unpack_bit_stream(Bytes data, size_t start, size_t n, unsigned bits, unsigned word_bits, bool is_signed);

}  // namespace lance
