// Bitmaps (LSB first, Arrow order) at any bit position.
#pragma once

#include <algorithm>
#include <optional>

#include "base/common.hpp"
#include "base/pool.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace lance {

// Returns the bits [at, at + count) of a bitmap; `count` is at most 64. The bits above are 0.
inline uint64_t word_at(Bytes bits, size_t at, size_t count) {
  size_t byte = at / 8, shift = at % 8, end = ceil8(at + count);
  uint64_t low = 0;
  copy_bytes(&low, bits.data + byte, std::min<size_t>(8, end - byte));
  low >>= shift;
  if (end - byte > 8) low |= static_cast<uint64_t>(bits.data[byte + 8]) << (64 - shift);
  return count == 64 ? low : low & ((uint64_t{1} << count) - 1);
}

// Appends bits to a bitmap. The buffer must hold ceil8(number of bits) bytes. The bits after the last one are zero.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* out) : out_(out) {}

  void append(bool bit) {
    if ((position_ & 7) == 0) {
      out_[position_ >> 3] = 0;
    }
    out_[position_ >> 3] |= static_cast<uint8_t>(bit) << (position_ & 7);
    ++position_;
  }

  // Appends the first `n` bits of a bitmap that starts at a byte boundary. Reads ceil8(n) bytes.
  void append_bits(const uint8_t* bits, size_t n) {
    if (n == 0) {
      return;
    }
    size_t whole = n / 8;
    size_t shift = position_ & 7;
    uint8_t* to = out_ + (position_ >> 3);
    if (shift == 0) {
      copy_bytes(to, bits, whole);
    } else {
      for (size_t i = 0; i < whole; ++i) {
        to[i] |= static_cast<uint8_t>(bits[i] << shift);
        to[i + 1] = static_cast<uint8_t>(bits[i] >> (8 - shift));
      }
    }
    position_ += whole * 8;
    for (size_t i = 0; i < n % 8; ++i) {
      append((bits[whole] >> i) & 1);
    }
  }

  // Appends the low `n` <= 64 bits of a word. The other bits must be 0.
  void append_word(uint64_t bits, size_t n) {
    size_t shift = position_ & 7;
    size_t bytes = ceil8(shift + n);
    uint8_t* to = out_ + (position_ >> 3);
    uint64_t low = bits << shift;
    if (shift != 0) {
      low |= *to;
    }
    copy_bytes(to, &low, bytes < 8 ? bytes : 8);  // supported hosts are little-endian, like bitmaps
    if (bytes > 8) {
      to[8] = static_cast<uint8_t>(bits >> (64 - shift));
    }
    position_ += n;
  }

  // Appends one bit per u16 level, set if level <= limit. Returns the number of set bits.
  size_t append_at_most(const uint8_t* levels, size_t n, uint16_t limit) {
    size_t set = 0;
    size_t i = 0;
#if defined(__SSE2__)
    if ((position_ & 7) == 0) {
      const __m128i bound = _mm_set1_epi16(static_cast<short>(limit));
      const __m128i zero = _mm_setzero_si128();
      for (; i + 16 <= n; i += 16) {
        __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels + 2 * i));
        __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels + 2 * i + 16));
        // Saturating subtraction is zero exactly where level <= limit.
        low = _mm_cmpeq_epi16(_mm_subs_epu16(low, bound), zero);
        high = _mm_cmpeq_epi16(_mm_subs_epu16(high, bound), zero);
        auto mask = static_cast<uint16_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
        store<uint16_t>(out_ + (position_ >> 3), mask);
        set += static_cast<size_t>(__builtin_popcount(mask));
        position_ += 16;
      }
    }
#endif
    for (; i < n; ++i) {
      bool bit = load<uint16_t>(levels + 2 * i) <= limit;
      set += bit;
      append(bit);
    }
    return set;
  }

  size_t position() const { return position_; }

 private:
  uint8_t* out_;
  size_t position_ = 0;
};

// Returns the bitmap of `n` values of which `is_valid(k)` are valid; none if all are.
template <class IsValid>
std::optional<Block> validity_of(size_t n, IsValid is_valid) {
  Block bitmap(ceil8(n));
  BitWriter writer(bitmap.data());
  bool all = true;
  for (size_t k = 0; k < n; ++k) {
    bool valid = is_valid(k);
    all &= valid;
    writer.append(valid);
  }
  return all ? std::nullopt : std::optional<Block>(std::move(bitmap));
}

}  // namespace lance
