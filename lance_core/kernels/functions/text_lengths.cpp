#include "functions/text_lengths.hpp"

#include <bit>

#include "base/variable.hpp"

namespace lance {
namespace {

// Returns how many of eight bytes begin a character: all but those from 0x80 to 0xbf.
__attribute__((always_inline)) inline uint64_t first_bytes(uint64_t word) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  return static_cast<uint64_t>(std::popcount(((~word >> 7) | (word >> 6)) & kOnes));
}

// Returns how many characters begin in a text.
__attribute__((always_inline)) inline uint64_t characters(const uint8_t* text, size_t size) {
  uint64_t count = 0;
  size_t i = 0;
  for (; i + 8 <= size; i += 8) count += first_bytes(load<uint64_t>(text + i));
  if (i < size) {
    uint64_t rest = 0;
    if (size >= 8) {
      rest = load<uint64_t>(text + size - 8) >> (8 * (8 - (size - i)));
    } else {
      for (size_t k = 0; k < size; ++k) rest |= static_cast<uint64_t>(text[k]) << (8 * k);
    }
    // A byte of zeros would count as a character.
    count += first_bytes(rest) - (8 - (size - i));
  }
  return count;
}

template <class T>
__attribute__((always_inline)) inline void write_lengths(const uint8_t* offsets, const uint8_t* data, size_t num_values,
                                                         uint8_t* out) {
  T begin = load<T>(offsets);
  for (size_t i = 0; i < num_values; ++i) {
    T end = load<T>(offsets + (i + 1) * sizeof(T));
    store(out + i * sizeof(T), static_cast<T>(characters(data + begin, end - begin)));
    begin = end;
  }
}

LANCE_MULTIVERSION void write_lengths_32(const uint8_t* offsets, const uint8_t* data, size_t num_values, uint8_t* out) {
  write_lengths<uint32_t>(offsets, data, num_values, out);
}
LANCE_MULTIVERSION void write_lengths_64(const uint8_t* offsets, const uint8_t* data, size_t num_values, uint8_t* out) {
  write_lengths<uint64_t>(offsets, data, num_values, out);
}

}  // namespace

Block count_characters(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits) {
  check_offsets(offsets, num_values, data.size, offset_bits);
  Block lengths(num_values * offset_bytes(offset_bits));
  (offset_bits == 32 ? write_lengths_32 : write_lengths_64)(offsets.data, data.data, num_values, lengths.data());
  return lengths;
}

}  // namespace lance
