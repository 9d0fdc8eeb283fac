// Common parts of the implementations of CRC-32C. Numbers are reflected: the highest bit of a CRC is x^0.
#pragma once

#include "files/crc32c.hpp"

namespace lance {

constexpr uint32_t kCrcPolynomial = 0x82f63b78;

// Returns the product of two polynomials modulo the polynomial of the CRC.
constexpr uint32_t crc_multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? (b >> 1) ^ kCrcPolynomial : b >> 1;
  }
  return product;
}

// Returns x^exponent.
constexpr uint32_t crc_power(uint64_t exponent) {
  uint32_t power = 1u << 30, result = 1u << 31;  // x and 1
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = crc_multiply(result, power);
    power = crc_multiply(power, power);
  }
  return result;
}

// Returns the factor of a CRC that is followed by `bytes` zeros.
constexpr uint32_t crc_zeros(size_t bytes) { return crc_power(8 * bytes); }

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__GNUC__)
#define LANCE_CRC_INSTRUCTIONS
bool crc_has_instructions();
uint32_t crc_with_instructions(Bytes bytes, uint32_t crc);
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define LANCE_CRC_PRODUCTS
bool crc_has_wide_products();
uint32_t crc_with_wide_products(Bytes bytes, uint32_t crc);
bool crc_has_products();
uint32_t crc_with_products(Bytes bytes, uint32_t crc);
#endif

}  // namespace lance
