#include "encode/bitpacking.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace lance {
namespace {

// The reverse of unpacking.
template <class T>
inline __attribute__((always_inline)) void pack_rows(const T* values, unsigned bits, uint8_t* out) {
  constexpr unsigned kBits = sizeof(T) * 8;
  constexpr size_t kNumLanes = kRowBytes / sizeof(Lanes);
  const T mask = low_bits<T>(bits);
  Lanes words[kNumLanes] = {};
  unsigned filled = 0;
  for (unsigned row = 0; row < kBits; ++row) {
    const auto* from = reinterpret_cast<const uint8_t*>(values + first_of_row(row));
    const uint64_t low_mask = in_each<T>(mask & low_bits<T>(kBits - filled));  // bits that this word has room for
    for (size_t i = 0; i < kNumLanes; ++i) {
      words[i] |= (load<Lanes>(from + i * sizeof(Lanes)) & low_mask) << filled;
    }
    filled += bits;
    if (filled >= kBits) {
      std::memcpy(out, words, kRowBytes);
      out += kRowBytes;
      filled -= kBits;
      unsigned kept = bits - filled;  // bits of this row in the word just stored
      const uint64_t high_mask = filled == 0 ? 0 : in_each<T>(mask) & ~in_each<T>(low_bits<T>(kept));
      for (size_t i = 0; i < kNumLanes; ++i) {
        words[i] = (load<Lanes>(from + i * sizeof(Lanes)) & high_mask) >> (filled == 0 ? 0 : kept);
      }
    }
  }
}

LANCE_MULTIVERSION void pack(const uint8_t* values, unsigned bits, uint8_t* out) { pack_rows(values, bits, out); }
LANCE_MULTIVERSION void pack(const uint16_t* values, unsigned bits, uint8_t* out) { pack_rows(values, bits, out); }
LANCE_MULTIVERSION void pack(const uint32_t* values, unsigned bits, uint8_t* out) { pack_rows(values, bits, out); }
LANCE_MULTIVERSION void pack(const uint64_t* values, unsigned bits, uint8_t* out) { pack_rows(values, bits, out); }

template <class T>
unsigned bits_of(const T* values, size_t n) {
  T all = 0;
  for (size_t i = 0; i < n; ++i) {
    all |= values[i];
  }
  return static_cast<unsigned>(std::bit_width(all));
}

LANCE_MULTIVERSION unsigned needed_bits(const uint8_t* values, size_t n) { return bits_of(values, n); }
LANCE_MULTIVERSION unsigned needed_bits(const uint16_t* values, size_t n) { return bits_of(values, n); }
LANCE_MULTIVERSION unsigned needed_bits(const uint32_t* values, size_t n) { return bits_of(values, n); }
LANCE_MULTIVERSION unsigned needed_bits(const uint64_t* values, size_t n) { return bits_of(values, n); }

template <class T>
struct Extent {
  T least;
  T most;
};

template <class T>
inline __attribute__((always_inline)) Extent<T> extent_in(const T* values, size_t n) {
  T least = values[0], most = values[0];
  for (size_t i = 0; i < n; ++i) {
    least = values[i] < least ? values[i] : least;
    most = values[i] > most ? values[i] : most;
  }
  return {least, most};
}

LANCE_MULTIVERSION Extent<uint8_t> extent_of(const uint8_t* values, size_t n) { return extent_in(values, n); }
LANCE_MULTIVERSION Extent<uint16_t> extent_of(const uint16_t* values, size_t n) { return extent_in(values, n); }
LANCE_MULTIVERSION Extent<uint32_t> extent_of(const uint32_t* values, size_t n) { return extent_in(values, n); }
LANCE_MULTIVERSION Extent<uint64_t> extent_of(const uint64_t* values, size_t n) { return extent_in(values, n); }
LANCE_MULTIVERSION Extent<int8_t> extent_of(const int8_t* values, size_t n) { return extent_in(values, n); }
LANCE_MULTIVERSION Extent<int16_t> extent_of(const int16_t* values, size_t n) { return extent_in(values, n); }
LANCE_MULTIVERSION Extent<int32_t> extent_of(const int32_t* values, size_t n) { return extent_in(values, n); }
LANCE_MULTIVERSION Extent<int64_t> extent_of(const int64_t* values, size_t n) { return extent_in(values, n); }

// Counts the values that differ from the value before them.
template <class T>
size_t changes_in(const T* values, size_t n) {
  size_t total = 0;
  for (size_t i = 1; i < n;) {
    size_t end = std::min(n, i + 255);
    T found = 0;  // as wide as the values, so that the compiler uses vectors; 255 fits into the narrowest type
    for (; i < end; ++i) {
      found += values[i] != values[i - 1];
    }
    total += found;
  }
  return total;
}

LANCE_MULTIVERSION size_t changes(const uint8_t* values, size_t n) { return changes_in(values, n); }
LANCE_MULTIVERSION size_t changes(const uint16_t* values, size_t n) { return changes_in(values, n); }
LANCE_MULTIVERSION size_t changes(const uint32_t* values, size_t n) { return changes_in(values, n); }
LANCE_MULTIVERSION size_t changes(const uint64_t* values, size_t n) { return changes_in(values, n); }

// Copies the values of a group to aligned words, padded with zeros if the group is not full.
template <class T>
class Group {
 public:
  const T* at(const uint8_t* values, size_t n) {
    std::memcpy(words_, values, n * sizeof(T));
    std::fill(words_ + n, words_ + kGroup, T{0});
    return words_;
  }

 private:
  alignas(64) T words_[kGroup];
};

template <class T>
PackedChunks pack_chunks(Bytes values) {
  size_t n = values.size / sizeof(T);
  size_t groups = n / kGroup + (n % kGroup != 0);
  PackedChunks out;
  out.lengths.reserve(groups);
  Group<T> group;
  std::vector<uint8_t> widths(groups);
  size_t total = 0;
  for (size_t i = 0; i < groups; ++i) {
    size_t count = std::min(kGroup, n - i * kGroup);
    widths[i] = static_cast<uint8_t>(needed_bits(group.at(values.data + i * kGroup * sizeof(T), count), count));
    out.lengths.push_back(static_cast<int64_t>(sizeof(T) + packed_bytes(widths[i])));
    total += static_cast<size_t>(out.lengths.back());
  }
  out.data = Block(total);
  uint8_t* to = out.data.data();
  for (size_t i = 0; i < groups; ++i) {
    size_t count = std::min(kGroup, n - i * kGroup);
    store<T>(to, static_cast<T>(widths[i]));
    pack_group(group.at(values.data + i * kGroup * sizeof(T), count), widths[i], to + sizeof(T));
    to += out.lengths[i];
  }
  return out;
}

// `Number` is T or its signed counterpart, and gives the order of the bounds.
template <class T, class Number>
WordSurvey survey(Bytes values) {
  size_t n = values.size / sizeof(T);
  WordSurvey result{0, n != 0, 0, 0, 0};
  Group<T> group;
  Extent<Number> all{std::numeric_limits<Number>::max(), std::numeric_limits<Number>::min()};
  for (size_t i = 0; i < n; i += kGroup) {
    size_t count = std::min(kGroup, n - i);
    const T* words = group.at(values.data + i * sizeof(T), count);
    Extent<T> extent = extent_of(words, count);
    Extent<Number> bounds{static_cast<Number>(extent.least), static_cast<Number>(extent.most)};
    if (bounds.least > bounds.most) {  // positive and negative numbers
      bounds = extent_of(reinterpret_cast<const Number*>(words), count);
    }
    all = {std::min(all.least, bounds.least), std::max(all.most, bounds.most)};
    unsigned bits = static_cast<unsigned>(std::bit_width(extent.most));
    result.num_runs += changes(words, count);
    result.num_runs += i != 0 && words[0] != load<T>(values.data + (i - 1) * sizeof(T));
    result.packed_bytes += sizeof(T) + packed_bytes(bits);
    result.highest_bit = std::max(result.highest_bit, bits);
  }
  result.least = static_cast<T>(all.least);
  result.most = static_cast<T>(all.most);
  return result;
}

template <class T>
Block pack_block(Bytes values, unsigned bits) {
  size_t n = values.size / sizeof(T);
  Block out(out_of_line_bytes<T>(n, bits));
  pack_out_of_line_chunk<T>(values.data, n, bits, out.data());
  return out;
}

}  // namespace

template <class T>
void pack_group(const T* values, unsigned bits, uint8_t* out) {
  if (bits != 0) {
    pack(values, bits, out);
  }
}

template <class T>
size_t out_of_line_bytes(size_t n, unsigned bits) {
  if (bits >= sizeof(T) * 8) {
    corrupt("%u packed bits for values of %zu bits", bits, sizeof(T) * 8);
  }
  size_t tail = n % kGroup;
  return n / kGroup * packed_bytes(bits) + std::min(packed_bytes(bits), tail * sizeof(T));
}

template <class T>
void pack_out_of_line_chunk(const uint8_t* values, size_t n, unsigned bits, uint8_t* out) {
  Group<T> group;
  size_t full = n / kGroup, tail = n % kGroup;
  for (size_t i = 0; i < full; ++i) {
    pack_group(group.at(values + i * kGroup * sizeof(T), kGroup), bits, out);
    out += packed_bytes(bits);
  }
  // If both forms have the same size, the tail is raw: readers tell the forms apart by the length alone.
  if (packed_bytes(bits) < tail * sizeof(T)) {
    pack_group(group.at(values + full * kGroup * sizeof(T), tail), bits, out);
  } else {
    copy_bytes(out, values + full * kGroup * sizeof(T), tail * sizeof(T));
  }
}

Block pack_out_of_line(Bytes values, unsigned word_bits, unsigned bits) {
  switch (word_bits) {
    case 8:
      return pack_block<uint8_t>(values, bits);
    case 16:
      return pack_block<uint16_t>(values, bits);
    case 32:
      return pack_block<uint32_t>(values, bits);
    case 64:
      return pack_block<uint64_t>(values, bits);
    default:
      corrupt("bit packing of words of %u bits", word_bits);
  }
}

PackedChunks pack_inline(Bytes values, unsigned word_bits) {
  switch (word_bits) {
    case 8:
      return pack_chunks<uint8_t>(values);
    case 16:
      return pack_chunks<uint16_t>(values);
    case 32:
      return pack_chunks<uint32_t>(values);
    case 64:
      return pack_chunks<uint64_t>(values);
    default:
      corrupt("bit packing of words of %u bits", word_bits);
  }
}

WordSurvey survey_words(Bytes values, unsigned word_bits, bool is_signed) {
  switch (word_bits) {
    case 8:
      return is_signed ? survey<uint8_t, int8_t>(values) : survey<uint8_t, uint8_t>(values);
    case 16:
      return is_signed ? survey<uint16_t, int16_t>(values) : survey<uint16_t, uint16_t>(values);
    case 32:
      return is_signed ? survey<uint32_t, int32_t>(values) : survey<uint32_t, uint32_t>(values);
    case 64:
      return is_signed ? survey<uint64_t, int64_t>(values) : survey<uint64_t, uint64_t>(values);
    default:
      corrupt("words of %u bits", word_bits);
  }
}

template size_t out_of_line_bytes<uint16_t>(size_t, unsigned);
template void pack_out_of_line_chunk<uint16_t>(const uint8_t*, size_t, unsigned, uint8_t*);

}  // namespace lance
