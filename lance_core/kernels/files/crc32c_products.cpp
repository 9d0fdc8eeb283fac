// CRC-32C with carry-less products. Bytes are the coefficients of a polynomial. The remainder of the bytes read so far
// is multiplied and added to bytes some hundred bytes ahead. For a distance of d bytes, the factor is x^(8d + 32) for
// the first eight bytes of sixteen and x^(8d - 32) for the others. It is shifted up by one bit, because products of
// reflected numbers are one bit too low. Several vectors at a time hide the latency of a product. Source: V. Gopal et
// al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009.
#include <array>
#include <bit>

#include "files/crc32c_parts.hpp"

#if defined(LANCE_CRC_PRODUCTS)
#include <immintrin.h>

namespace lance {
namespace {

constexpr uint64_t factor_first(size_t ahead) { return uint64_t{crc_zeros(ahead + 4)} << 1; }
constexpr uint64_t factor_last(size_t ahead) { return uint64_t{crc_zeros(ahead - 4)} << 1; }

// Variant with vectors of 64 bytes.
constexpr size_t kWideVectors = 8, kWide = 64 * kWideVectors;

// Variant with vectors of 32 bytes. A product takes two cycles (Zen 3) and 32 bytes need two, which is no faster than
// the CRC instruction with eight bytes per cycle. Different parts of the processor execute both, so they run at the
// same time: the vectors read the first range of a round, the CRC instruction the following ranges, one per lane.
constexpr size_t kVectors = 4, kLanes = 3, kLaneWords = 5;
constexpr size_t kFolded = 32 * kVectors, kLane = 8 * kLaneWords, kRound = kFolded + kLanes * kLane;

// A product of CRCs by instructions is too high by x^33. The powers below are too low by x^33 in return.
constexpr uint64_t kOrder = (uint64_t{1} << 31) - 1;  // x^kOrder is 1

// x^(8 kLane), its square, the square of that, ..., each divided by x^33, for any number of rounds.
constexpr std::array<uint32_t, 64> lane_powers() {
  std::array<uint32_t, 64> powers{};
  uint32_t power = crc_zeros(kLane);
  for (uint32_t& each : powers) {
    each = crc_multiply(power, crc_power(kOrder - 33));
    power = crc_multiply(power, power);
  }
  return powers;
}
static_assert(crc_power(kOrder) == 1u << 31);
constexpr std::array<uint32_t, 64> kLanePowers = lane_powers();

#define LANCE_TARGET __attribute__((target("sse4.2,pclmul,vpclmulqdq,avx2")))

LANCE_TARGET inline uint32_t multiply(uint32_t a, uint32_t power) {
  __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(a)), _mm_cvtsi32_si128(static_cast<int>(power)), 0x00);
  return static_cast<uint32_t>(_mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(product))));
}

LANCE_TARGET inline uint32_t lane_power(size_t rounds) {
  uint32_t power = kLanePowers[std::countr_zero(rounds)];
  while ((rounds &= rounds - 1) != 0) power = multiply(power, kLanePowers[std::countr_zero(rounds)]);
  return power;
}

}  // namespace

__attribute__((target("sse4.2,pclmul,vpclmulqdq,avx512f,avx512vl"))) uint32_t crc_with_wide_products(Bytes bytes,
                                                                                                     uint32_t crc) {
  const uint8_t* p = bytes.data;
  size_t n = bytes.size;
  if (n < kWide) return crc_with_instructions(bytes, crc);
  constexpr uint64_t kFirst = factor_first(kWide), kLast = factor_last(kWide);
  const __m512i factors = _mm512_set4_epi64(kLast, kFirst, kLast, kFirst);
  __m512i parts[kWideVectors];
  for (size_t k = 0; k < kWideVectors; ++k) parts[k] = _mm512_loadu_si512(p + 64 * k);
  parts[0] = _mm512_xor_si512(parts[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc))));
  for (p += kWide, n -= kWide; n >= kWide; p += kWide, n -= kWide) {
    for (size_t k = 0; k < kWideVectors; ++k) {
      // Prefetches the next vectors into the first-level cache, which is too small to hold them already.
      __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(p) + 2048 + 64 * k));
      __m512i first = _mm512_clmulepi64_epi128(parts[k], factors, 0x00);
      __m512i last = _mm512_clmulepi64_epi128(parts[k], factors, 0x11);
      parts[k] = _mm512_ternarylogic_epi64(first, last, _mm512_loadu_si512(p + 64 * k), 0x96);  // xor of all three
    }
  }
  uint8_t left[kWide];
  for (size_t k = 0; k < kWideVectors; ++k) _mm512_storeu_si512(left + 64 * k, parts[k]);
  return crc_with_instructions({p, n}, crc_with_instructions({left, kWide}, 0));
}

bool crc_has_wide_products() {
  return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512vl") && crc_has_instructions();
}

LANCE_TARGET uint32_t crc_with_products(Bytes bytes, uint32_t crc) {
  size_t rounds = bytes.size / kRound, stretch = kLane * rounds;
  if (rounds == 0) return crc_with_instructions(bytes, crc);
  const uint8_t *p = bytes.data, *lane = p + kFolded * rounds;
  constexpr uint64_t kFirst = factor_first(kFolded), kLast = factor_last(kFolded);
  const __m256i factors = _mm256_set_epi64x(kLast, kFirst, kLast, kFirst);
  auto vector = [](const uint8_t* at) LANCE_TARGET { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); };
  __m256i parts[kVectors];
  for (size_t k = 0; k < kVectors; ++k) parts[k] = vector(p + 32 * k);
  parts[0] = _mm256_xor_si256(parts[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(crc))));
  uint64_t lanes[kLanes] = {};
  for (size_t round = 1;; ++round) {
    for (size_t word = 0; word < kLaneWords; ++word) {
      for (size_t k = 0; k < kLanes; ++k) {
        lanes[k] = _mm_crc32_u64(lanes[k], load<uint64_t>(lane + k * stretch + 8 * word));
      }
    }
    lane += kLane;
    p += kFolded;
    if (round == rounds) break;
    for (size_t k = 0; k < kVectors; ++k) {
      __m256i first = _mm256_clmulepi64_epi128(parts[k], factors, 0x00);
      __m256i last = _mm256_clmulepi64_epi128(parts[k], factors, 0x11);
      parts[k] = _mm256_xor_si256(_mm256_xor_si256(first, vector(p + 32 * k)), last);
    }
  }
  uint8_t left[kFolded];
  for (size_t k = 0; k < kVectors; ++k) _mm256_storeu_si256(reinterpret_cast<__m256i*>(left + 32 * k), parts[k]);
  crc = crc_with_instructions({left, kFolded}, 0);
  uint32_t power = lane_power(rounds);
  for (uint64_t sum : lanes) crc = multiply(crc, power) ^ static_cast<uint32_t>(sum);
  return crc_with_instructions({bytes.data + kRound * rounds, bytes.size - kRound * rounds}, crc);
}

bool crc_has_products() {
  return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
         crc_has_instructions();
}

}  // namespace lance
#endif
