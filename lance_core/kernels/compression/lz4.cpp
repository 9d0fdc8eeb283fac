#include "compression/lz4.hpp"

#include "base/copies.hpp"

namespace lance {
namespace {

constexpr unsigned kMore = 15;  // in a token: the length continues in the following bytes
constexpr size_t kLeastMatch = 4;

// Reads a length whose half of the token is `first`.
inline size_t read_length(size_t first, const uint8_t*& in, const uint8_t* end) {
  if (first != kMore) {
    return first;
  }
  uint8_t byte = 255;
  while (byte == 255) {
    if (in == end) {
      corrupt("an LZ4 block ends inside a length");
    }
    byte = *in++;
    first += byte;
  }
  return first;
}

}  // namespace

// Source: LZ4 block format, https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
void inflate_lz4(Bytes block, uint8_t* to, size_t size) {
  const uint8_t *in = block.data, *in_end = in + block.size;
  uint8_t *out = to, *out_end = to + size;
  while (in != in_end) {
    unsigned token = *in++;
    size_t literals = read_length(token >> 4, in, in_end);
    if (literals > static_cast<size_t>(in_end - in) || literals > static_cast<size_t>(out_end - out)) {
      corrupt("an LZ4 block of %zu bytes that stands for %zu has %zu literals at %zu", block.size, size, literals,
              static_cast<size_t>(in - block.data));
    }
    if (literals <= 16 && in_end - in >= 16) {
      copy16(out, in);
    } else {
      copy_bytes(out, in, literals);
    }
    in += literals;
    out += literals;
    if (in == in_end) {  // no match follows the last literals
      if (out != out_end) {
        break;
      }
      return;
    }
    if (in_end - in < 2) {
      corrupt("an LZ4 block ends inside a distance");
    }
    size_t distance = load<uint16_t>(in);
    in += 2;
    size_t length = read_length(token & 15, in, in_end) + kLeastMatch;
    if (distance == 0 || distance > static_cast<size_t>(out - to) || length > static_cast<size_t>(out_end - out)) {
      corrupt("an LZ4 block repeats %zu bytes from %zu before %zu of %zu", length, distance,
              static_cast<size_t>(out - to), size);
    }
    repeat_bytes(out, distance, length);
    out += length;
  }
  corrupt("an LZ4 block of %zu bytes holds %zu bytes instead of %zu", block.size, static_cast<size_t>(out - to), size);
}

}  // namespace lance
