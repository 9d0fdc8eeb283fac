#include "filters/kept_values.hpp"

#include <algorithm>
#include <bit>

#include "base/bits.hpp"
#include "filters/positions.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace lance {
namespace {

constexpr int kWord = 64;
// With fewer set bits of 64, jumping from one to the next is faster than looking at each.
constexpr int kManyBits = 8;

size_t bits_from(size_t i, size_t n) { return std::min<size_t>(kWord, n - i); }

// Calls `use` with the position of every set bit of a word.
template <class Use>
void each_set(uint64_t word, Use use) {
  for (; word != 0; word &= word - 1) use(static_cast<size_t>(std::countr_zero(word)));
}

// Writes one value more than are kept, which the next one overwrites.
template <class T>
uint8_t* keep_word(const uint8_t* values, uint64_t word, size_t num_bits, uint8_t* out) {
  int count = std::popcount(word);
  if (count == kWord) {
    std::memcpy(out, values, kWord * sizeof(T));
    return out + kWord * sizeof(T);
  }
  if (count < kManyBits) {
    each_set(word, [&](size_t k) {
      store(out, load<T>(values + k * sizeof(T)));
      out += sizeof(T);
    });
    return out;
  }
  for (size_t k = 0; k < num_bits; ++k) {  // without a branch, since the processor cannot foresee the bits
    store(out, load<T>(values + k * sizeof(T)));
    out += (word >> k & 1) * sizeof(T);
  }
  return out;
}

template <class T>
uint8_t* keep(const uint8_t* values, Bytes mask, size_t start, size_t n, uint8_t* out) {
  for (size_t i = 0; i < n; i += kWord, values += kWord * sizeof(T)) {
    size_t num_bits = bits_from(i, n);
    out = keep_word<T>(values, word_at(mask, start + i, num_bits), num_bits, out);
  }
  return out;
}

#if defined(__x86_64__) && defined(__GNUC__)
// For each choice among the values of one vector of 32 bytes: the numbers of the chosen 32-bit lanes, and then any.
template <class T>
struct Lanes {
  static constexpr size_t kValues = 32 / sizeof(T), kParts = sizeof(T) / 4;
  alignas(32) uint32_t numbers[1 << kValues][8];
  constexpr Lanes() : numbers() {
    for (size_t choice = 0; choice < 1 << kValues; ++choice) {
      for (size_t k = 0, lane = 0; k < kValues; ++k) {
        for (size_t part = 0; (choice >> k & 1) != 0 && part < kParts; ++part) {
          numbers[choice][lane++] = static_cast<uint32_t>(k * kParts + part);
        }
      }
    }
  }
};
template <class T>
constexpr Lanes<T> kLanes;

bool has_lanes() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
  return has;
}

// Writes up to `kKeptSlack` bytes more than are kept.
template <class T>
__attribute__((target("avx2,popcnt"))) uint8_t* keep_lanes(const uint8_t* values, Bytes mask, size_t start, size_t n,
                                                           uint8_t* out) {
  constexpr size_t kValues = Lanes<T>::kValues;
  for (size_t i = 0; i < n; i += kWord, values += kWord * sizeof(T)) {
    size_t num_bits = bits_from(i, n);
    uint64_t word = word_at(mask, start + i, num_bits);
    if (num_bits < kWord) {  // the last values fill no vector
      return keep_word<T>(values, word, num_bits, out);
    }
    for (size_t k = 0; k < kWord; k += kValues, word >>= kValues) {
      auto choice = static_cast<unsigned>(word & ((1U << kValues) - 1));
      __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + k * sizeof(T)));
      __m256i lanes = _mm256_load_si256(reinterpret_cast<const __m256i*>(kLanes<T>.numbers[choice]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(all, lanes));
      out += static_cast<size_t>(__builtin_popcount(choice)) * sizeof(T);
    }
  }
  return out;
}
#else
bool has_lanes() { return false; }
template <class T>
uint8_t* keep_lanes(const uint8_t*, Bytes, size_t, size_t, uint8_t* out) {
  return out;
}
#endif

uint8_t* keep_wide(const uint8_t* values, size_t width, Bytes mask, size_t start, size_t n, uint8_t* out) {
  for (size_t i = 0; i < n; i += kWord, values += kWord * width) {
    each_set(word_at(mask, start + i, bits_from(i, n)), [&](size_t k) {
      copy_bytes(out, values + k * width, width);
      out += width;
    });
  }
  return out;
}

}  // namespace

uint8_t* keep_values(const uint8_t* values, size_t width, Bytes mask, size_t start, size_t n, uint8_t* out) {
  switch (width) {
    case 1:
      return keep<uint8_t>(values, mask, start, n, out);
    case 2:
      return keep<uint16_t>(values, mask, start, n, out);
    case 4:
      return (has_lanes() ? keep_lanes<uint32_t> : keep<uint32_t>)(values, mask, start, n, out);
    case 8:
      return (has_lanes() ? keep_lanes<uint64_t> : keep<uint64_t>)(values, mask, start, n, out);
    default:
      return keep_wide(values, width, mask, start, n, out);
  }
}

Block kept_values(Bytes values, size_t width, Bytes mask, size_t start, size_t n) {
  check_bits(mask, start, n);
  if (width == 0 || values.size / width < n) {
    corrupt("%zu bytes for %zu values of %zu bytes", values.size, n, width);
  }
  size_t count = count_bits(mask, start, n);
  Block kept(count * width + kKeptSlack);
  keep_values(values.data, width, mask, start, n, kept.data());
  kept.resize(count * width);
  return kept;
}

void append_kept_bits(BitWriter& writer, Bytes bits, size_t first, Bytes mask, size_t start, size_t n) {
  for (size_t i = 0; i < n; i += kWord) {
    uint64_t word = word_at(mask, start + i, bits_from(i, n)), from = word_at(bits, first + i, bits_from(i, n));
    uint64_t chosen = 0;
    size_t count = 0;
    if (word == ~uint64_t{0}) {
      chosen = from;
      count = kWord;
    } else {
      each_set(word, [&](size_t k) { chosen |= (from >> k & 1) << count++; });
    }
    writer.append_word(chosen, count);
  }
}

Block kept_bits(Bytes bits, size_t first, Bytes mask, size_t start, size_t n) {
  check_bits(mask, start, n);
  check_bits(bits, first, n);
  Block kept(ceil8(count_bits(mask, start, n)));
  BitWriter writer(kept.data());
  append_kept_bits(writer, bits, first, mask, start, n);
  return kept;
}

}  // namespace lance
