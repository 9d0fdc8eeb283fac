#include "codecs/bit_stream.hpp"

#include <algorithm>

namespace lance {
namespace {

// Returns the 64 bits from bit `position` on, with zeros after the end of the data.
uint64_t bits_at(Bytes data, size_t position) {
  size_t byte = position / 8;
  unsigned shift = position % 8;
  uint8_t nine[9] = {};
  copy_bytes(nine, data.data + byte, std::min<size_t>(sizeof(nine), data.size - byte));
  auto low = load<uint64_t>(nine) >> shift;
  return shift == 0 ? low : low | static_cast<uint64_t>(nine[8]) << (64 - shift);
}

template <class T>
Block unpack(Bytes data, size_t start, size_t n, unsigned bits, bool is_signed) {
  Block out(n * sizeof(T));
  T* to = reinterpret_cast<T*>(out.data());
  unsigned unused = 64 - bits;
  for (size_t i = 0; i < n; ++i) {
    uint64_t value = bits_at(data, start + i * bits) << unused;
    to[i] = static_cast<T>(is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value) >> unused) : value >> unused);
  }
  return out;
}

}  // namespace

Block unpack_bit_stream(Bytes data, size_t start, size_t n, unsigned bits, unsigned word_bits, bool is_signed) {
  if (bits == 0 || bits > word_bits) {
    corrupt("numbers of %u bits kept in %u", word_bits, bits);
  }
  if (start > data.size * 8 || n > (data.size * 8 - start) / bits) {
    corrupt("%zu bytes for %zu numbers of %u bits from bit %zu on", data.size, n, bits, start);
  }
  switch (word_bits) {
    case 8:
      return unpack<uint8_t>(data, start, n, bits, is_signed);
    case 16:
      return unpack<uint16_t>(data, start, n, bits, is_signed);
    case 32:
      return unpack<uint32_t>(data, start, n, bits, is_signed);
    case 64:
      return unpack<uint64_t>(data, start, n, bits, is_signed);
    default:
      corrupt("bit packing of words of %u bits", word_bits);
  }
}

}  // namespace lance
