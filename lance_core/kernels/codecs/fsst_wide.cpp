// FSST with the vector instructions of newer x86 processors: the bytes of eight symbols are moved together in one
// vector and stored at once.
#include "codecs/fsst_ways.hpp"

#if defined(LANCE_FSST_WIDE)
#include <immintrin.h>

#include <bit>

namespace lance {
namespace {

#define LANCE_WIDE __attribute__((target("avx2,bmi2,popcnt,avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx512bitalg")))

LANCE_WIDE inline __m128i two_symbols(const SymbolTable& table, const uint8_t* code) {
  __m128i first = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&table.symbol[code[0]]));
  return _mm_castpd_si128(
      _mm_loadh_pd(_mm_castsi128_pd(first), reinterpret_cast<const double*>(&table.symbol[code[1]])));
}

// Eight loads, because the gather instruction takes twice as long on some processors.
LANCE_WIDE inline __m512i eight_symbols(const SymbolTable& table, const uint8_t* code) {
  __m256i first = _mm256_set_m128i(two_symbols(table, code + 2), two_symbols(table, code));
  __m256i last = _mm256_set_m128i(two_symbols(table, code + 6), two_symbols(table, code + 4));
  return _mm512_inserti64x4(_mm512_castsi256_si512(first), last, 1);
}

}  // namespace

LANCE_WIDE uint8_t* expand_wide(const SymbolTable& table, const uint8_t* code, const uint8_t* end, uint8_t* out,
                                Places* places) {
  constexpr size_t kVector = 64;
  // For each code, a byte with as many bits set as its symbol has bytes.
  const __m512i bits_of_length =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 3, 7, 15, 31, 63, 127, -1, 0, 0, 0, 0, 0, 0, 0));
  __m512i bits[4];
  for (size_t i = 0; i < 4; ++i) {
    bits[i] = _mm512_shuffle_epi8(bits_of_length, _mm512_loadu_si512(table.length + kVector * i));
  }
  const uint8_t* begin = out;
  bool escaped = false;  // whether the next code is the byte after an escape
  for (; static_cast<size_t>(end - code) >= kVector; code += kVector) {
    __m512i codes = _mm512_loadu_si512(code);
    uint64_t escapes = _mm512_cmpeq_epi8_mask(codes, _mm512_set1_epi8(static_cast<char>(kEscape)));
    __m512i found =
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), _mm512_permutex2var_epi8(bits[0], codes, bits[1]),
                               _mm512_permutex2var_epi8(bits[2], codes, bits[3]));
    alignas(kVector) uint64_t kept[kVector / kCodes];  // of the bytes of eight symbols
    alignas(kVector) uint64_t lengths[kVector / kCodes];
    _mm512_store_si512(kept, found);
    _mm512_store_si512(lengths, _mm512_popcnt_epi8(found));
#pragma GCC unroll 8
    for (size_t i = 0; i < kVector / kCodes; ++i, ++places) {
      places->begin = static_cast<uint64_t>(out - begin);
      if (escaped || (escapes >> (kCodes * i) & 0xff) != 0) [[unlikely]] {
        out = expand_escaped(table, code + kCodes * i, kCodes, out, escaped, *places);
        continue;
      }
      _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept[i], eight_symbols(table, code + kCodes * i)));
      out += std::popcount(kept[i]);
      store_places(*places, lengths[i]);
    }
  }
  return expand_rest(table, code, end, begin, out, escaped, places);
}

bool can_expand_wide() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("popcnt");
}

}  // namespace lance
#endif
