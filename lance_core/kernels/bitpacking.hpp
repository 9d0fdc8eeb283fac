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

// One value of a packed group.
template <class T>
inline T unpack_one(const uint8_t* packed, unsigned bits, size_t value) {
  constexpr unsigned kBits = sizeof(T) * 8;
  constexpr unsigned kLanes = kGroup / kBits;
  constexpr unsigned kSpan = kLanes / 16;  // runs of sixteen values that are neighbours in a row
  constexpr unsigned kOrder[8] = {0, 4, 2, 6, 1, 5, 3, 7};
  if (bits == 0) {
    return 0;
  }
  auto run = static_cast<unsigned>(value % 128 / 16);
  unsigned row = 8 * kOrder[run & ~(kSpan - 1)] + static_cast<unsigned>(value / 128);
  unsigned lane = (run & (kSpan - 1)) * 16 + static_cast<unsigned>(value % 16);
  const uint8_t* low = packed + (row * bits / kBits * kLanes + lane) * sizeof(T);
  unsigned shift = row * bits % kBits;
  const T mask = bits == kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << bits) - 1);
  auto word = static_cast<T>(load<T>(low) >> shift);
  if (shift + bits > kBits) {
    word |= static_cast<T>(load<T>(low + kLanes * sizeof(T)) << (kBits - shift));
  }
  return word & mask;
}

// The packed group of an inline chunk and its bit width, checked against the bytes at hand.
template <class T>
struct InlineGroup {
  const uint8_t* packed;
  unsigned bits;
};

template <class T>
inline InlineGroup<T> open_inline_chunk(Bytes chunk, size_t n, size_t index) {
  if (n > kGroup) {
    corrupt("chunk %zu packs %zu values in one group of 1024", index, n);
  }
  if (chunk.size < sizeof(T)) {
    corrupt("chunk %zu has no room for its bit width", index);
  }
  auto bits = static_cast<size_t>(load<T>(chunk.data));
  if (bits > sizeof(T) * 8 || packed_bytes(bits) > chunk.size - sizeof(T)) {
    corrupt("chunk %zu of %zu bytes claims values of %zu bits in words of %zu", index, chunk.size, bits, sizeof(T) * 8);
  }
  return {chunk.data + sizeof(T), static_cast<unsigned>(bits)};
}

// One chunk of at most 1024 values whose first word says how many bits are kept. `out` holds n values.
template <class T>
void unpack_inline_chunk(Bytes chunk, size_t n, T* out, size_t index);

// Any number of values at a fixed bit width; the tail is raw or packed, told apart by the length alone.
template <class T>
void unpack_out_of_line_chunk(Bytes chunk, size_t n, unsigned bits, T* out, size_t index);

Block unpack_inline(const Stream& stream, const Counts& counts, unsigned word_bits);
Block unpack_out_of_line(const Stream& stream, const Counts& counts, unsigned word_bits, unsigned bits);

}  // namespace lance
