#include "filters/positions.hpp"

#include <algorithm>
#include <bit>

#include "base/bits.hpp"

namespace lance {

namespace {

// The positions of the set bits of each byte, and then any numbers.
struct SetBits {
  uint8_t positions[256][8];
  constexpr SetBits() : positions() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      for (unsigned bit = 0, count = 0; bit < 8; ++bit) {
        positions[byte][count] = static_cast<uint8_t>(bit);
        count += byte >> bit & 1;
      }
    }
  }
};
constexpr SetBits kSetBits;

// From this number of set bits of 64 on, looking at every byte is faster than jumping from one bit to the next, since
// the processor cannot foresee where the jumps end.
constexpr int kManyBits = 6;
// Positions that are written for each byte. Those after the set bits of the byte are overwritten or cut off.
constexpr size_t kSlack = 8;

// Writes up to `kSlack` positions more than there are.
LANCE_MULTIVERSION void write_positions(Bytes bits, size_t start, size_t n, int64_t first, int64_t* out) {
  for (size_t i = 0; i < n; i += 64, first += 64) {
    uint64_t word = word_at(bits, start + i, std::min<size_t>(64, n - i));
    if (std::popcount(word) < kManyBits) {
      for (; word != 0; word &= word - 1) *out++ = first + std::countr_zero(word);
    } else {
      for (int64_t position = first; word != 0; word >>= 8, position += 8) {
        const uint8_t* positions = kSetBits.positions[word & 0xff];
        for (size_t k = 0; k < 8; ++k) out[k] = position + positions[k];
        out += std::popcount(word & 0xff);
      }
    }
  }
}

}  // namespace

void check_bits(Bytes bits, size_t start, size_t n) {
  if (n > bits.size * 8 || start > bits.size * 8 - n) {
    corrupt("%zu bits from bit %zu on of a bitmap of %zu bytes", n, start, bits.size);
  }
}

LANCE_MULTIVERSION size_t count_bits(Bytes bits, size_t start, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; i += 64) count += std::popcount(word_at(bits, start + i, std::min<size_t>(64, n - i)));
  return count;
}

Block set_positions(Bytes bits, size_t start, size_t n, int64_t first) {
  check_bits(bits, start, n);
  size_t count = count_bits(bits, start, n);
  Block positions((count + kSlack) * sizeof(int64_t));
  write_positions(bits, start, n, first, reinterpret_cast<int64_t*>(positions.data()));
  positions.resize(count * sizeof(int64_t));
  return positions;
}

bool has_dense_blocks(Bytes bits, size_t start, size_t n, size_t block_bits, double least_share) {
  check_bits(bits, start, n);
  if (block_bits == 0) corrupt("blocks of no bits");
  for (size_t i = 0; i < n; i += std::min(block_bits, n - i)) {
    size_t size = std::min(block_bits, n - i), count = count_bits(bits, start + i, size);
    if (count == 0 || static_cast<double>(count) < least_share * static_cast<double>(size)) return false;
  }
  return true;
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
