#include "files/crc32c.hpp"

#include <array>
#include <vector>

#include "files/crc32c_parts.hpp"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace lance {
namespace {

using Table = std::array<std::array<uint32_t, 256>, 4>;

// Returns a table with the contribution of each byte of a CRC to the CRC after `bytes` more zeros.
constexpr Table shift_table(size_t bytes) {
  Table table{};
  uint32_t factor = crc_zeros(bytes);
  for (unsigned k = 0; k < 4; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) table[k][byte] = crc_multiply(factor, byte << (8 * k));
  }
  return table;
}

inline uint32_t shift(const Table& table, uint32_t crc) {
  return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
}

using Slices = std::array<std::array<uint32_t, 256>, 8>;

constexpr Slices make_slices() {
  Slices slices{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >> 1) ^ kCrcPolynomial : crc >> 1;
    slices[0][byte] = crc;
  }
  for (unsigned k = 1; k < 8; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t before = slices[k - 1][byte];
      slices[k][byte] = (before >> 8) ^ slices[0][before & 255];
    }
  }
  return slices;
}

const Slices kSlices = make_slices();

#if defined(LANCE_CRC_INSTRUCTIONS)
constexpr size_t kLong = 8192, kShort = 256;
const Table kLongShift = shift_table(kLong), kShortShift = shift_table(kShort);

#if defined(__x86_64__)
#define LANCE_CRC_TARGET __attribute__((target("sse4.2")))
LANCE_CRC_TARGET inline uint32_t step(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(__builtin_ia32_crc32di(crc, word));
}
LANCE_CRC_TARGET inline uint32_t step(uint32_t crc, uint8_t byte) { return __builtin_ia32_crc32qi(crc, byte); }
#else
#define LANCE_CRC_TARGET __attribute__((target("+crc")))
LANCE_CRC_TARGET inline uint32_t step(uint32_t crc, uint64_t word) { return __builtin_aarch64_crc32cx(crc, word); }
LANCE_CRC_TARGET inline uint32_t step(uint32_t crc, uint8_t byte) { return __builtin_aarch64_crc32cb(crc, byte); }
#endif

// The CRC instruction takes three cycles, but one can start in each cycle. So three parts are computed at a time.
template <size_t kPart>
LANCE_CRC_TARGET inline uint32_t three_parts(const uint8_t*& p, size_t& n, uint32_t crc, const Table& table) {
  for (; n >= 3 * kPart; p += 3 * kPart, n -= 3 * kPart) {
    uint32_t second = 0, third = 0;
    for (size_t i = 0; i < kPart; i += 8) {
      // Prefetches the next parts: data that was not just written is in no cache.
      if (i % 64 == 0 && n >= 6 * kPart) {
        for (size_t part = 3; part < 6; ++part) __builtin_prefetch(p + part * kPart + i);
      }
      crc = step(crc, load<uint64_t>(p + i));
      second = step(second, load<uint64_t>(p + kPart + i));
      third = step(third, load<uint64_t>(p + 2 * kPart + i));
    }
    crc = shift(table, shift(table, crc) ^ second) ^ third;
  }
  return crc;
}

#endif

uint32_t portable(Bytes bytes, uint32_t crc) {
  const uint8_t* p = bytes.data;
  size_t n = bytes.size;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word = load<uint64_t>(p) ^ crc;
    crc = 0;
    for (unsigned k = 0; k < 8; ++k) crc ^= kSlices[7 - k][word >> (8 * k) & 255];
  }
  for (; n > 0; ++p, --n) crc = (crc >> 8) ^ kSlices[0][(crc ^ *p) & 255];
  return crc;
}

}  // namespace

#if defined(LANCE_CRC_INSTRUCTIONS)
LANCE_CRC_TARGET uint32_t crc_with_instructions(Bytes bytes, uint32_t crc) {
  const uint8_t* p = bytes.data;
  size_t n = bytes.size;
  crc = three_parts<kLong>(p, n, crc, kLongShift);
  crc = three_parts<kShort>(p, n, crc, kShortShift);
  for (; n >= 8; p += 8, n -= 8) crc = step(crc, load<uint64_t>(p));
  for (; n > 0; ++p, --n) crc = step(crc, *p);
  return crc;
}

bool crc_has_instructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("sse4.2");
#elif defined(__linux__)
  return (getauxval(AT_HWCAP) & (1ul << 7)) != 0;  // HWCAP_CRC32
#else
  return true;
#endif
}
#endif

std::span<const CrcWay> crc_ways() {
  static const std::vector<CrcWay> ways = [] {
    std::vector<CrcWay> found;
#if defined(LANCE_CRC_PRODUCTS)
    if (crc_has_wide_products()) found.push_back({"wide_products", 1024, crc_with_wide_products});
    if (crc_has_products()) found.push_back({"products", 1024, crc_with_products});
#endif
#if defined(LANCE_CRC_INSTRUCTIONS)
    if (crc_has_instructions()) found.push_back({"instructions", 0, crc_with_instructions});
#endif
    found.push_back({"portable", 0, portable});
    return found;
  }();
  return ways;
}

uint32_t crc32c(Bytes bytes, uint32_t initial) {
  for (const CrcWay& way : crc_ways()) {
    if (bytes.size >= way.least) return ~way.sum(bytes, ~initial);
  }
  return initial;
}

}  // namespace lance
