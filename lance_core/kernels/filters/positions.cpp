#include "filters/positions.hpp"

#include <algorithm>
#include <bit>

#include "base/bits.hpp"

namespace lance {

namespace {

// From this number of set bits of 64 on, looking at every bit is faster than jumping from one to the next, since the
// processor cannot foresee where the jumps end.
constexpr int kManyBits = 12;

LANCE_MULTIVERSION size_t count_bits(Bytes bits, size_t start, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; i += 64) count += std::popcount(word_at(bits, start + i, std::min<size_t>(64, n - i)));
  return count;
}

// Writes one position more than there are: it is written before it is known whether it counts.
LANCE_MULTIVERSION void write_positions(Bytes bits, size_t start, size_t n, int64_t first, int64_t* out) {
  for (size_t i = 0; i < n; i += 64, first += 64) {
    uint64_t word = word_at(bits, start + i, std::min<size_t>(64, n - i));
    if (std::popcount(word) < kManyBits) {
      for (; word != 0; word &= word - 1) *out++ = first + std::countr_zero(word);
    } else {
      for (int64_t position = first; word != 0; word >>= 1, ++position) {
        *out = position;
        out += word & 1;
      }
    }
  }
}

}  // namespace

Block set_positions(Bytes bits, size_t start, size_t n, int64_t first) {
  if (n > bits.size * 8 || start > bits.size * 8 - n) {
    corrupt("%zu bits from bit %zu on of a bitmap of %zu bytes", n, start, bits.size);
  }
  size_t count = count_bits(bits, start, n);
  Block positions((count + 1) * sizeof(int64_t));
  write_positions(bits, start, n, first, reinterpret_cast<int64_t*>(positions.data()));
  positions.resize(count * sizeof(int64_t));
  return positions;
}

Block bits_except(Bytes positions, size_t n) {
  if (positions.size % sizeof(uint32_t) != 0) {
    corrupt("%zu bytes of positions of 4 bytes", positions.size);
  }
  Block bits(ceil8(n));
  std::memset(bits.data(), 0xff, bits.size());
  for (size_t at = 0; at < positions.size; at += sizeof(uint32_t)) {
    auto position = load<uint32_t>(positions.data + at);
    if (position >= n) {
      corrupt("position %u in a bitmap of %zu bits", position, n);
    }
    bits.data()[position / 8] &= static_cast<uint8_t>(~(1u << position % 8));
  }
  return bits;
}

}  // namespace lance
