#include "vector_codes/lookup_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/common.hpp"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#define LANCE_WIDE __attribute__((target("avx2,bmi2,avx512f,avx512bw,avx512vbmi")))
#endif

namespace lance {

namespace {

constexpr size_t kEntries = 256;
// The limit is this many steps of the rounded entries per sub-vector. An entry has at most 255 steps: larger ones count
// as 255, which is still a lower bound.
constexpr size_t kStepsPerSubVector = 64;
constexpr size_t kMostSteps = 60'000;  // sums are of 16 bits and saturate
// Entries are rounded again when the limit has shrunk to this share.
constexpr double kPreciseShare = 0.5;
// A smaller range would have infinitely many steps per unit.
constexpr double kLeastRange = 1e-30;

#if defined(LANCE_WIDE)

bool has_wide_lookups() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi");
}

struct Extremes {
  float smallest, largest;
  bool are_numbers;
};

LANCE_WIDE Extremes extremes(const float* entries) {
  __m512 least = _mm512_loadu_ps(entries), most = least;
  __mmask16 is_nan = 0;
  for (size_t i = 0; i < kEntries; i += 16) {
    __m512 values = _mm512_loadu_ps(entries + i);
    is_nan |= _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    least = _mm512_min_ps(values, least);
    most = _mm512_max_ps(values, most);
  }
  return {_mm512_reduce_min_ps(least), _mm512_reduce_max_ps(most), is_nan == 0};
}

LANCE_WIDE void round_down(const float* entries, float smallest, float steps_per_unit, uint8_t* rounded) {
  __m512 low = _mm512_set1_ps(smallest), scale = _mm512_set1_ps(steps_per_unit);
  for (size_t i = 0; i < kEntries; i += 16) {
    __m512 steps = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(entries + i), low), scale);
    // Steps beyond 32 bits become 2^31, and all beyond 255 become 255.
    __m128i bytes = _mm512_cvtusepi32_epi8(_mm512_cvttps_epi32(steps));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(rounded + i), bytes);
  }
}

LANCE_WIDE uint64_t sums_within(const uint8_t* rounded, size_t num_sub_vectors, const uint8_t* codes, size_t stride,
                                uint64_t present, uint16_t most) {
  const __m512i low_bytes = _mm512_set1_epi16(0xff);
  __m512i even = _mm512_setzero_si512(), odd = even;  // sums of the rows with even and with odd numbers
  for (size_t m = 0; m < num_sub_vectors; ++m, codes += stride, rounded += kEntries) {
    __m512i code = _mm512_maskz_loadu_epi8(present, codes);
    __m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(rounded), code, _mm512_loadu_si512(rounded + 64));
    __m512i high = _mm512_permutex2var_epi8(_mm512_loadu_si512(rounded + 128), code, _mm512_loadu_si512(rounded + 192));
    __m512i entries = _mm512_mask_blend_epi8(_mm512_movepi8_mask(code), low, high);
    even = _mm512_adds_epu16(even, _mm512_and_si512(entries, low_bytes));
    odd = _mm512_adds_epu16(odd, _mm512_srli_epi16(entries, 8));
  }
  __m512i limit = _mm512_set1_epi16(static_cast<short>(most));
  uint64_t even_rows = _mm512_cmple_epu16_mask(even, limit), odd_rows = _mm512_cmple_epu16_mask(odd, limit);
  if ((even_rows | odd_rows) == 0) return 0;
  return present & (_pdep_u64(even_rows, 0x5555555555555555u) | _pdep_u64(odd_rows, 0xaaaaaaaaaaaaaaaau));
}

#endif

}  // namespace

LookupBounds::LookupBounds(const float* table, size_t num_sub_vectors)
    : table_(table), num_sub_vectors_(num_sub_vectors) {
#if defined(LANCE_WIDE)
  if (!has_wide_lookups()) return;
  double magnitude = 0;
  bool are_finite = true;
  smallest_.resize(num_sub_vectors);
  for (size_t m = 0; m < num_sub_vectors; ++m) {
    Extremes found = extremes(table + m * kEntries);
    are_finite &= found.are_numbers && std::isfinite(found.largest - found.smallest);
    smallest_[m] = found.smallest;
    least_ += found.smallest;
    magnitude += std::max(std::fabs(found.smallest), std::fabs(found.largest));
  }
  constexpr double epsilon = std::numeric_limits<float>::epsilon();
  slack_ = magnitude * epsilon * static_cast<double>(num_sub_vectors + 8);
  is_usable_ = are_finite;
  rounded_.resize(is_usable_ ? num_sub_vectors * kEntries : 0);
#endif
}

void LookupBounds::set_limit(double limit) {
#if defined(LANCE_WIDE)
  double range = limit - least_ + slack_;
  excludes_all_ = range < 0;
  if (excludes_all_) return;
  auto steps = static_cast<double>(std::min(kMostSteps, num_sub_vectors_ * kStepsPerSubVector));
  if (range > rounded_for_ || range < kPreciseShare * rounded_for_) {
    rounded_for_ = std::max(range, kLeastRange);
    auto steps_per_unit = static_cast<float>(steps / rounded_for_);
    for (size_t m = 0; m < num_sub_vectors_; ++m) {
      round_down(table_ + m * kEntries, smallest_[m], steps_per_unit, rounded_.data() + m * kEntries);
    }
  }
  // One step more for the products above, which are rounded, too.
  most_ = static_cast<uint16_t>(steps * (range / rounded_for_) * (1 + 1e-6) + 1);
#else
  (void)limit;
#endif
}

uint64_t LookupBounds::may_be_within(const uint8_t* codes, size_t stride, size_t num_rows) const {
#if defined(LANCE_WIDE)
  uint64_t present = num_rows < kRows ? (uint64_t{1} << num_rows) - 1 : ~uint64_t{0};
  return sums_within(rounded_.data(), num_sub_vectors_, codes, stride, present, most_);
#else
  (void)codes, (void)stride;
  return num_rows < kRows ? (uint64_t{1} << num_rows) - 1 : ~uint64_t{0};
#endif
}

}  // namespace lance
