#include "vectors/row_sums.hpp"

#include "base/common.hpp"

namespace lance {

LANCE_MULTIVERSION float squared_distance(const float* a, const float* b, size_t size) {
  return lanes::squared_distance(a, b, size);
}

LANCE_MULTIVERSION float product(const float* a, const float* b, size_t size) { return lanes::product(a, b, size); }

LANCE_MULTIVERSION float product(const float* a, const uint8_t* b, size_t size) { return lanes::product(a, b, size); }

LANCE_MULTIVERSION uint32_t squared_distance(const uint8_t* a, const uint8_t* b, size_t size) {
  return lanes::squared_distance(a, b, size);
}

uint32_t differing_bits(const uint8_t* a, const uint8_t* b, size_t num_bytes) {
  uint32_t bits = 0;
  size_t i = 0;
  for (; i + 8 <= num_bytes; i += 8) {
    bits += static_cast<uint32_t>(__builtin_popcountll(load<uint64_t>(a + i) ^ load<uint64_t>(b + i)));
  }
  for (; i < num_bytes; ++i) {
    bits += static_cast<uint32_t>(__builtin_popcount(static_cast<unsigned>(a[i] ^ b[i])));
  }
  return bits;
}

}  // namespace lance
