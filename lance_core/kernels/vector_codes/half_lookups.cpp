#include "vector_codes/half_lookups.hpp"

#include <cstdlib>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#define LANCE_AVX512 __attribute__((target("avx512f")))
#endif

namespace lance {

#if defined(LANCE_AVX512)

bool has_half_lookups() { return __builtin_cpu_supports("avx512f"); }

LANCE_AVX512 void half_lookups(float* sums, const float* table, size_t bytes_per_row, const uint8_t* codes) {
  constexpr size_t kLanes = 16, kParts = kHalfLookupRows / kLanes;
  __m512 totals[kParts];
  for (__m512& total : totals) total = _mm512_setzero_ps();
  for (size_t m = 0; m < bytes_per_row; ++m, table += 2 * kLanes, codes += kHalfLookupRows) {
    __m512 low = _mm512_loadu_ps(table), high = _mm512_loadu_ps(table + kLanes);
    for (size_t part = 0; part < kParts; ++part) {
      const auto* bytes = reinterpret_cast<const __m128i*>(codes + part * kLanes);
      __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes));
      // A lookup sees the lowest four bits only.
      __m512 pair =
          _mm512_add_ps(_mm512_permutexvar_ps(code, low), _mm512_permutexvar_ps(_mm512_srli_epi32(code, 4), high));
      totals[part] = _mm512_add_ps(totals[part], pair);
    }
  }
  for (size_t part = 0; part < kParts; ++part) _mm512_storeu_ps(sums + part * kLanes, totals[part]);
}

#else

bool has_half_lookups() { return false; }

void half_lookups(float*, const float*, size_t, const uint8_t*) { std::abort(); }

#endif

}  // namespace lance
