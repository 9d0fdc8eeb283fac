#include <array>

#include "statistics.hpp"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace lance {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

// Product of two polynomials modulo the CRC's, all reflected: the highest bit is x^0.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

// x^(8 * bytes): what a CRC is multiplied by when so many zeros follow.
constexpr uint32_t zeros(size_t bytes) {
  uint32_t power = 1u << 23, result = 1u << 31;  // x^8 and 1
  for (; bytes != 0; bytes >>= 1) {
    if (bytes & 1) result = multiply(result, power);
    power = multiply(power, power);
  }
  return result;
}

using Table = std::array<std::array<uint32_t, 256>, 4>;

// For each byte of a CRC what it becomes when `bytes` zeros follow.
constexpr Table shift_table(size_t bytes) {
  Table table{};
  uint32_t factor = zeros(bytes);
  for (unsigned k = 0; k < 4; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) table[k][byte] = multiply(factor, byte << (8 * k));
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
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? (crc >> 1) ^ kPolynomial : crc >> 1;
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

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__GNUC__)
#define LANCE_CRC_INSTRUCTIONS

constexpr size_t kLong = 8192, kShort = 256;
const Table kLongShift = shift_table(kLong), kShortShift = shift_table(kShort);

#if defined(__x86_64__)
#define LANCE_CRC_TARGET __attribute__((target("sse4.2")))
LANCE_CRC_TARGET inline uint32_t step(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(__builtin_ia32_crc32di(crc, word));
}
LANCE_CRC_TARGET inline uint32_t step(uint32_t crc, uint8_t byte) { return __builtin_ia32_crc32qi(crc, byte); }
bool has_instructions() { return __builtin_cpu_supports("sse4.2"); }
#else
#define LANCE_CRC_TARGET __attribute__((target("+crc")))
LANCE_CRC_TARGET inline uint32_t step(uint32_t crc, uint64_t word) { return __builtin_aarch64_crc32cx(crc, word); }
LANCE_CRC_TARGET inline uint32_t step(uint32_t crc, uint8_t byte) { return __builtin_aarch64_crc32cb(crc, byte); }
bool has_instructions() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & (1ul << 7)) != 0;  // HWCAP_CRC32
#else
  return true;
#endif
}
#endif

// One instruction takes three cycles and one can start in each: three neighbouring parts at a time hide that.
template <size_t kPart>
LANCE_CRC_TARGET inline uint32_t three_parts(const uint8_t*& p, size_t& n, uint32_t crc, const Table& table) {
  for (; n >= 3 * kPart; p += 3 * kPart, n -= 3 * kPart) {
    uint32_t second = 0, third = 0;
    for (size_t i = 0; i < kPart; i += 8) {
      // What comes next is fetched early: data that was not just written is in no cache.
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

LANCE_CRC_TARGET uint32_t with_instructions(const uint8_t* p, size_t n, uint32_t crc) {
  crc = three_parts<kLong>(p, n, crc, kLongShift);
  crc = three_parts<kShort>(p, n, crc, kShortShift);
  for (; n >= 8; p += 8, n -= 8) crc = step(crc, load<uint64_t>(p));
  for (; n > 0; ++p, --n) crc = step(crc, *p);
  return crc;
}
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define LANCE_CRC_FOLDING

// Products without carry: bytes are polynomials, and what lies 512 bytes ahead is added to the remainder of those that
// have been read. Of a product's two factors the one is known: x^(8 * 512 + 32) for the first eight bytes of sixteen,
// x^(8 * 512 - 32) for the others, one bit up, since products of reflected numbers come out one bit low. Eight parts at
// a time hide how long a product takes.
// Source: V. Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009.
constexpr size_t kParts = 8, kFolded = 64 * kParts;
constexpr uint64_t kFoldFirst = uint64_t{zeros(kFolded + 4)} << 1, kFoldLast = uint64_t{zeros(kFolded - 4)} << 1;

__attribute__((target("sse4.2,pclmul,vpclmulqdq,avx512f,avx512vl"))) uint32_t with_products(const uint8_t* p, size_t n,
                                                                                            uint32_t crc) {
  const __m512i factors = _mm512_set4_epi64(kFoldLast, kFoldFirst, kFoldLast, kFoldFirst);
  __m512i parts[kParts];
  for (size_t k = 0; k < kParts; ++k) parts[k] = _mm512_loadu_si512(p + 64 * k);
  parts[0] = _mm512_xor_si512(parts[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  for (p += kFolded, n -= kFolded; n >= kFolded; p += kFolded, n -= kFolded) {
    for (size_t k = 0; k < kParts; ++k) {
      // What comes next is fetched early, into the cache that is too small to hold it already.
      __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + 2048 + 64 * k));
      __m512i first = _mm512_clmulepi64_epi128(parts[k], factors, 0x00);
      __m512i last = _mm512_clmulepi64_epi128(parts[k], factors, 0x11);
      parts[k] = _mm512_ternarylogic_epi64(first, last, _mm512_loadu_si512(p + 64 * k), 0x96);  // all three added
    }
  }
  uint8_t left[kFolded];
  for (size_t k = 0; k < kParts; ++k) _mm512_storeu_si512(left + 64 * k, parts[k]);
  return with_instructions(p, n, with_instructions(left, kFolded, 0));
}

bool has_products() {
  return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512vl") && has_instructions();
}
#endif

}  // namespace

uint32_t crc32c_portable(Bytes bytes, uint32_t initial) {
  const uint8_t* p = bytes.data;
  size_t n = bytes.size;
  uint32_t crc = ~initial;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word = load<uint64_t>(p) ^ crc;
    crc = 0;
    for (unsigned k = 0; k < 8; ++k) crc ^= kSlices[7 - k][word >> (8 * k) & 255];
  }
  for (; n > 0; ++p, --n) crc = (crc >> 8) ^ kSlices[0][(crc ^ *p) & 255];
  return ~crc;
}

uint32_t crc32c(Bytes bytes, uint32_t initial) {
#if defined(LANCE_CRC_FOLDING)
  static const bool folds = has_products();
  if (folds && bytes.size >= 2 * kFolded) return ~with_products(bytes.data, bytes.size, ~initial);
#endif
#if defined(LANCE_CRC_INSTRUCTIONS)
  static const bool fast = has_instructions();
  if (fast) return ~with_instructions(bytes.data, bytes.size, ~initial);
#endif
  return crc32c_portable(bytes, initial);
}

}  // namespace lance
