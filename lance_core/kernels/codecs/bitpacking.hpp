// Bit packing in the transposed order of groups of 1024 values (docs/format.md, "Bit packing").
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

constexpr size_t kGroup = 1024;

// Returns the bytes of one packed group.
inline size_t packed_bytes(size_t bits) { return kGroup / 8 * bits; }

// Bytes of a row of packed words, in which each value of a group lies in one lane of the width of its type.
constexpr size_t kRowBytes = kGroup / 8;

// Words of a row that vector instructions handle together.
using Lanes = uint64_t __attribute__((vector_size(32)));

// Returns the number of the first value of a row. The others follow it.
constexpr unsigned first_of_row(unsigned row) {
  constexpr unsigned kOrder[8] = {0, 4, 2, 6, 1, 5, 3, 7};
  return 16 * kOrder[row / 8] + 128 * (row % 8);
}

// Returns a word whose lowest `bits` bits are ones.
template <class T>
constexpr T low_bits(unsigned bits) {
  return bits == sizeof(T) * 8 ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << bits) - 1);
}

// Returns 64 bits that repeat a word.
template <class T>
constexpr uint64_t in_each(T word) {
  return word * (~uint64_t{0} / static_cast<T>(~T{0}));
}

// Unpacks one group. `bits` is in 0..8*sizeof(T), `packed` has packed_bytes(bits) bytes, `out` has 1024 values.
template <class T>
void unpack_group(const uint8_t* packed, unsigned bits, T* out);

// Position of one value of a packed group: inside one word, or at the end of one word and the beginning of another.
template <class T>
struct PackedPlace {
  static constexpr unsigned kBits = sizeof(T) * 8;
  static constexpr unsigned kLanes = kGroup / kBits;

  size_t low = 0;  // byte of the first word
  unsigned shift = 0;
  unsigned bits = 0;

  // `bits` is at least 1.
  static PackedPlace of(unsigned bits, size_t value) {
    constexpr unsigned kSpan = kLanes / 16;  // runs of sixteen values that are adjacent in a row
    constexpr unsigned kOrder[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    auto run = static_cast<unsigned>(value % 128 / 16);
    unsigned row = 8 * kOrder[run & ~(kSpan - 1)] + static_cast<unsigned>(value / 128);
    unsigned lane = (run & (kSpan - 1)) * 16 + static_cast<unsigned>(value % 16);
    return {.low = (row * bits / kBits * kLanes + lane) * sizeof(T), .shift = row * bits % kBits, .bits = bits};
  }

  bool is_split() const { return shift + bits > kBits; }
  size_t high() const { return low + kLanes * sizeof(T); }

  // Returns the value from the words at this position. The second word is used only if the value is split.
  T value(T first, T second) const {
    auto word = static_cast<T>(first >> shift);
    if (is_split()) {
      word |= static_cast<T>(second << (kBits - shift));
    }
    return word & low_bits<T>(bits);
  }
};

// Returns one value of a packed group.
template <class T>
inline T unpack_one(const uint8_t* packed, unsigned bits, size_t value) {
  if (bits == 0) {
    return 0;
  }
  auto place = PackedPlace<T>::of(bits, value);
  return place.value(load<T>(packed + place.low), place.is_split() ? load<T>(packed + place.high()) : T{0});
}

// Checks the size of a chunk with a group of `n` values, and the number of bits that it stores per value.
template <class T>
inline void check_inline_chunk(size_t bytes, size_t n, uint64_t bits, size_t index) {
  if (n > kGroup) {
    corrupt("chunk %zu packs %zu values in one group of 1024", index, n);
  }
  if (bits > sizeof(T) * 8 || packed_bytes(static_cast<size_t>(bits)) > bytes - sizeof(T)) {
    corrupt("chunk %zu of %zu bytes claims values of %llu bits in words of %zu", index, bytes,
            static_cast<unsigned long long>(bits), sizeof(T) * 8);
  }
}

// Returns the packed group of an inline chunk and its bit width, checked against the size of the chunk.
template <class T>
struct InlineGroup {
  const uint8_t* packed;
  unsigned bits;
};

template <class T>
inline InlineGroup<T> open_inline_chunk(Bytes chunk, size_t n, size_t index) {
  if (chunk.size < sizeof(T)) {
    corrupt("chunk %zu has no room for its bit width", index);
  }
  T bits = load<T>(chunk.data);
  check_inline_chunk<T>(chunk.size, n, bits, index);
  return {chunk.data + sizeof(T), static_cast<unsigned>(bits)};
}

// Shape of a block at a fixed bit width: full groups, then a tail of raw words or one padded group.
template <class T>
struct OutOfLineShape {
  size_t full;  // number of full groups
  bool is_raw;  // whether the tail is raw words

  // Returns the shape of `n` values in `bytes` bytes. It follows from the length alone.
  static OutOfLineShape of(size_t bytes, size_t n, unsigned bits, size_t index) {
    if (bits >= sizeof(T) * 8) {
      corrupt("%u packed bits for values of %zu bits", bits, sizeof(T) * 8);
    }
    size_t full = n / kGroup, tail = n % kGroup;
    size_t words = bytes / sizeof(T), group_words = packed_bytes(bits) / sizeof(T);
    bool fits = group_words == 0 || full <= words / group_words;
    size_t rest = fits ? words - full * group_words : 0;
    if (!fits || bytes % sizeof(T) != 0 || (rest != tail && (tail == 0 || rest != group_words))) {
      corrupt("chunk %zu of %zu bytes for %zu values of %u bits", index, bytes, n, bits);
    }
    return {full, rest == tail};
  }
};

// Decodes a chunk of at most 1024 values, whose first word is the bit width. `out` has room for n values.
template <class T>
void unpack_inline_chunk(Bytes chunk, size_t n, T* out, size_t index);

// Decodes any number of values at a fixed bit width. The length alone tells whether the tail is raw or packed.
template <class T>
void unpack_out_of_line_chunk(Bytes chunk, size_t n, unsigned bits, T* out, size_t index);

Block unpack_inline(const Stream& stream, const Counts& counts, unsigned word_bits);
Block unpack_out_of_line(const Stream& stream, const Counts& counts, unsigned word_bits, unsigned bits);

}  // namespace lance
