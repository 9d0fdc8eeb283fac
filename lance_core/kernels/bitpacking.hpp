// Bit packing in the transposed order of groups of 1024 values (docs/format.md, bit packing).
#pragma once

#include "common.hpp"
#include "pool.hpp"

namespace lance {

constexpr size_t kGroup = 1024;

// Bytes of one packed group.
inline size_t packed_bytes(size_t bits) { return kGroup / 8 * bits; }

// One group: `bits` in 0..8*sizeof(T), `packed` of packed_bytes(bits) bytes, `out` of 1024 values.
template <class T>
void unpack_group(const uint8_t* packed, unsigned bits, T* out);

// One chunk of at most 1024 values whose first word says how many bits are kept. `out` holds n values.
template <class T>
void unpack_inline_chunk(Bytes chunk, size_t n, T* out, size_t index);

// Any number of values at a fixed bit width; the tail is raw or packed, told apart by the length alone.
template <class T>
void unpack_out_of_line_chunk(Bytes chunk, size_t n, unsigned bits, T* out, size_t index);

Block unpack_inline(const Stream& stream, const Counts& counts, unsigned word_bits);
Block unpack_out_of_line(const Stream& stream, const Counts& counts, unsigned word_bits, unsigned bits);

}  // namespace lance
