#include "filters/kept_values.hpp"

#include <algorithm>
#include <bit>

#include "base/bits.hpp"

namespace lance {
namespace {

constexpr int kWord = 64;
// With fewer set bits of 64, jumping from one to the next is faster than looking at each.
constexpr int kManyBits = 8;

void check_bits(Bytes bits, size_t start, size_t n) {
  if (n > bits.size * 8 || start > bits.size * 8 - n) {
    corrupt("%zu bits from bit %zu on of a bitmap of %zu bytes", n, start, bits.size);
  }
}

size_t bits_from(size_t i, size_t n) { return std::min<size_t>(kWord, n - i); }

size_t count_set(Bytes mask, size_t start, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; i += kWord) count += std::popcount(word_at(mask, start + i, bits_from(i, n)));
  return count;
}

// Calls `use` with the position of every set bit of a word.
template <class Use>
void each_set(uint64_t word, Use use) {
  for (; word != 0; word &= word - 1) use(static_cast<size_t>(std::countr_zero(word)));
}

// Writes one value more than are kept, which the next one overwrites.
template <class T>
void keep(const uint8_t* values, Bytes mask, size_t start, size_t n, uint8_t* out) {
  for (size_t i = 0; i < n; i += kWord, values += kWord * sizeof(T)) {
    size_t num_bits = bits_from(i, n);
    uint64_t word = word_at(mask, start + i, num_bits);
    int count = std::popcount(word);
    if (count == kWord) {
      std::memcpy(out, values, kWord * sizeof(T));
      out += kWord * sizeof(T);
    } else if (count < kManyBits) {
      each_set(word, [&](size_t k) {
        store(out, load<T>(values + k * sizeof(T)));
        out += sizeof(T);
      });
    } else {
      for (size_t k = 0; k < num_bits; ++k) {  // without a branch, since the processor cannot foresee the bits
        store(out, load<T>(values + k * sizeof(T)));
        out += (word >> k & 1) * sizeof(T);
      }
    }
  }
}

void keep_wide(const uint8_t* values, size_t width, Bytes mask, size_t start, size_t n, uint8_t* out) {
  for (size_t i = 0; i < n; i += kWord, values += kWord * width) {
    each_set(word_at(mask, start + i, bits_from(i, n)), [&](size_t k) {
      copy_bytes(out, values + k * width, width);
      out += width;
    });
  }
}

}  // namespace

Block kept_values(Bytes values, size_t width, Bytes mask, size_t start, size_t n) {
  check_bits(mask, start, n);
  if (width == 0 || values.size / width < n) {
    corrupt("%zu bytes for %zu values of %zu bytes", values.size, n, width);
  }
  size_t count = count_set(mask, start, n);
  Block kept((count + 1) * width);
  switch (width) {
    case 1:
      keep<uint8_t>(values.data, mask, start, n, kept.data());
      break;
    case 2:
      keep<uint16_t>(values.data, mask, start, n, kept.data());
      break;
    case 4:
      keep<uint32_t>(values.data, mask, start, n, kept.data());
      break;
    case 8:
      keep<uint64_t>(values.data, mask, start, n, kept.data());
      break;
    default:
      keep_wide(values.data, width, mask, start, n, kept.data());
  }
  kept.resize(count * width);
  return kept;
}

Block kept_bits(Bytes bits, size_t first, Bytes mask, size_t start, size_t n) {
  check_bits(mask, start, n);
  check_bits(bits, first, n);
  Block kept(ceil8(count_set(mask, start, n)));
  BitWriter writer(kept.data());
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
  return kept;
}

}  // namespace lance
