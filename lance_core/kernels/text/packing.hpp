// Packed unsigned integers of posting lists, in lanes: value i is in lane i % lanes, and 32-bit words of the lanes
// alternate.
#pragma once

#include "base/common.hpp"

namespace lance {

// Bytes of `n` packed values of `bits` bits; `n` is a multiple of 128.
inline size_t packed_lane_bytes(size_t n, unsigned bits) { return n / 8 * bits; }

// Unpacks 32 values of each of `Lanes` lanes. `bits` is at most 32.
template <unsigned Lanes>
inline void unpack_lanes(const uint8_t* packed, unsigned bits, uint32_t* out) {
  if (bits == 0) {
    std::memset(out, 0, sizeof(uint32_t) * 32 * Lanes);
    return;
  }
  const uint32_t mask = bits == 32 ? ~uint32_t{0} : (uint32_t{1} << bits) - 1;
  for (unsigned row = 0; row < 32; ++row) {
    unsigned at = row * bits, word = at / 32, shift = at % 32;
    const uint8_t* low = packed + 4 * Lanes * word;
    if (shift + bits <= 32) {
      for (unsigned lane = 0; lane < Lanes; ++lane) {
        out[row * Lanes + lane] = (load<uint32_t>(low + 4 * lane) >> shift) & mask;
      }
    } else {
      const uint8_t* high = low + 4 * Lanes;
      for (unsigned lane = 0; lane < Lanes; ++lane) {
        out[row * Lanes + lane] =
            (load<uint32_t>(low + 4 * lane) >> shift | load<uint32_t>(high + 4 * lane) << (32 - shift)) & mask;
      }
    }
  }
}

// Packs 32 values of each of four lanes behind `out`. All values are below 2^bits.
inline void pack_lanes(const uint32_t* values, unsigned bits, std::vector<uint8_t>& out) {
  size_t start = out.size();
  out.resize(start + packed_lane_bytes(128, bits));
  uint8_t* packed = out.data() + start;
  for (unsigned lane = 0; lane < 4; ++lane) {
    uint64_t word = 0;
    unsigned used = 0, number = 0;
    for (unsigned row = 0; row < 32; ++row) {
      word |= static_cast<uint64_t>(values[4 * row + lane]) << used;
      used += bits;
      if (used >= 32) {
        store<uint32_t>(packed + 4 * (4 * number + lane), static_cast<uint32_t>(word));
        word >>= 32;
        used -= 32;
        ++number;
      }
    }
  }
}

inline unsigned bit_width(uint32_t value) { return value == 0 ? 0 : 32 - static_cast<unsigned>(__builtin_clz(value)); }

// Reader of variable-length integers of at most 32 bits.
class VarintReader {
 public:
  explicit VarintReader(Bytes data) : data_(data) {}
  uint32_t next() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
      if (at_ == data_.size) {
        corrupt("an integer ends behind its %zu bytes", data_.size);
      }
      uint8_t byte = data_.data[at_++];
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) {
        if (value > UINT32_MAX) {
          break;
        }
        return static_cast<uint32_t>(value);
      }
    }
    corrupt("an integer at %zu has more than 32 bits", at_);
  }
  size_t position() const { return at_; }

 private:
  Bytes data_;
  size_t at_ = 0;
};

inline void append_varint(std::vector<uint8_t>& out, uint32_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<uint8_t>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<uint8_t>(value));
}

}  // namespace lance
