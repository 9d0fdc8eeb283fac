#include "compression/compress_lz4.hpp"

#include <algorithm>

namespace lance {
namespace {

// A block is a list of sequences. A sequence has a token, the literals, and the distance (u16) to the start of the
// match. The token has the number of literals in the upper four bits, and the length of the match minus four in the
// lower four bits. If a number is 15, bytes follow that are added to it, up to the first byte below 255. The last
// sequence has literals only, at least five, and no match begins in the last twelve bytes. Source: LZ4 block format,
// https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
constexpr size_t kLeastMatch = 4, kLastLiterals = 5, kNoMatchFrom = 12;
constexpr size_t kFarthest = 65535;
constexpr unsigned kPatience = 6;  // after 2^6 positions without a match every second position is tried, and so on
constexpr unsigned kHashBits = 12;

size_t most_bytes(size_t n) { return n + n / 255 + 16; }

uint8_t* put_length(uint8_t* to, size_t length) {
  for (; length >= 255; length -= 255) *to++ = 255;
  *to++ = static_cast<uint8_t>(length);
  return to;
}

size_t common_bytes(const uint8_t* a, const uint8_t* b, const uint8_t* end_of_a) {
  const uint8_t* begin = a;
  for (; end_of_a - a >= 8; a += 8, b += 8) {
    uint64_t differs = load<uint64_t>(a) ^ load<uint64_t>(b);
    if (differs != 0) return static_cast<size_t>(a - begin + (__builtin_ctzll(differs) >> 3));
  }
  while (a < end_of_a && *a == *b) ++a, ++b;
  return static_cast<size_t>(a - begin);
}

class BlockCompressor {
 public:
  BlockCompressor() : places_(size_t{1} << kHashBits, 0) {}

  uint8_t* compress(const uint8_t* from, size_t n, uint8_t* to) {
    if (n > UINT32_MAX / 2) corrupt("a chunk of %zu bytes", n);
    if (n > UINT32_MAX - next_) {
      std::fill(places_.begin(), places_.end(), 0);
      next_ = 1;
    }
    base_ = next_;
    next_ += static_cast<uint32_t>(n);
    const uint8_t *end = from + n, *literals = from;
    for (const uint8_t* at = from; n >= kNoMatchFrom + 1 && at <= end - kNoMatchFrom;) {
      const uint8_t* match = find(from, at, end - kNoMatchFrom);
      if (match == nullptr) break;
      while (at > literals && match > from && at[-1] == match[-1]) --at, --match;
      size_t length = kLeastMatch + common_bytes(at + kLeastMatch, match + kLeastMatch, end - kLastLiterals);
      uint8_t* token = to;
      to = put_literals(literals, static_cast<size_t>(at - literals), to);
      store(to, static_cast<uint16_t>(at - match));
      to += 2;
      size_t more = length - kLeastMatch;
      *token |= static_cast<uint8_t>(std::min<size_t>(more, 15));
      if (more >= 15) to = put_length(to, more - 15);
      at += length;
      literals = at;
      if (at <= end - kNoMatchFrom) note(from, at - 2);
    }
    return put_literals(literals, static_cast<size_t>(end - literals), to);
  }

 private:
  static size_t slot_of(const uint8_t* at) { return load<uint32_t>(at) * 2654435761u >> (32 - kHashBits); }

  void note(const uint8_t* from, const uint8_t* at) { places_[slot_of(at)] = base_ + static_cast<uint32_t>(at - from); }

  // Moves `at` to the next position whose four bytes occurred before, and returns the earlier position.
  const uint8_t* find(const uint8_t* from, const uint8_t*& at, const uint8_t* last) {
    for (size_t tries = size_t{1} << kPatience; at <= last; at += tries++ >> kPatience) {
      uint32_t& place = places_[slot_of(at)];
      uint32_t here = base_ + static_cast<uint32_t>(at - from), before = place;
      place = here;
      if (before < base_ || here - before > kFarthest) continue;
      const uint8_t* match = from + (before - base_);
      if (load<uint32_t>(match) == load<uint32_t>(at)) return match;
    }
    return nullptr;
  }

  static uint8_t* put_literals(const uint8_t* literals, size_t n, uint8_t* to) {
    *to++ = static_cast<uint8_t>(std::min<size_t>(n, 15) << 4);
    if (n >= 15) to = put_length(to, n - 15);
    copy_bytes(to, literals, n);
    return to + n;
  }

  // Last position of four bytes with each hash. Positions continue from chunk to chunk, so that nothing has to be
  // cleared.
  std::vector<uint32_t> places_;
  uint32_t base_ = 1, next_ = 1;
};

}  // namespace

PackedFrames compress_lz4(const Stream& chunks) {
  size_t most = 0;
  for (int64_t length : chunks.length) most += 4 + most_bytes(static_cast<size_t>(length));
  PackedFrames out{Block(most), {}};
  BlockCompressor compressor;
  uint8_t* to = out.data.data();
  for (size_t i = 0; i < chunks.size(); ++i) {
    Bytes chunk = chunks.chunk(i);
    uint8_t* begin = to;
    store(to, static_cast<uint32_t>(chunk.size));
    to = compressor.compress(chunk.data, chunk.size, to + 4);
    out.lengths.push_back(to - begin);
  }
  out.data.resize(static_cast<size_t>(to - out.data.data()));
  return out;
}

}  // namespace lance
