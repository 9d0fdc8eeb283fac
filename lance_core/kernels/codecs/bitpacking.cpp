#include "codecs/bitpacking.hpp"

#include "base/copies.hpp"

namespace lance {
namespace {

// Row by row, so that consecutive packed words become consecutive values. Whatever the width of a value, `Lanes` shifts
// words of 64 bits, and the masks cut off what comes in from the value beside it. Otherwise the compiler would handle
// words of 64 bits one by one, since it unrolls their short loop first, and those of 8 bits as numbers of 32.
template <class T>
inline __attribute__((always_inline)) void unpack_rows(const uint8_t* packed, unsigned bits, T* out) {
  constexpr unsigned kBits = sizeof(T) * 8;
  for (unsigned row = 0; row < kBits; ++row) {
    auto* to = reinterpret_cast<uint8_t*>(out + first_of_row(row));
    const uint8_t* low = packed + row * bits / kBits * kRowBytes;
    unsigned shift = row * bits % kBits;
    if (shift + bits <= kBits) {
      const uint64_t mask = in_each<T>(low_bits<T>(bits));
      for (size_t at = 0; at < kRowBytes; at += sizeof(Lanes)) {
        store<Lanes>(to + at, (load<Lanes>(low + at) >> shift) & mask);
      }
    } else {
      const uint8_t* high = low + kRowBytes;
      unsigned left = kBits - shift;
      const uint64_t low_mask = in_each<T>(low_bits<T>(left));
      const uint64_t high_mask = in_each<T>(low_bits<T>(bits)) & ~low_mask;
      for (size_t at = 0; at < kRowBytes; at += sizeof(Lanes)) {
        store<Lanes>(to + at,
                     ((load<Lanes>(low + at) >> shift) & low_mask) | ((load<Lanes>(high + at) << left) & high_mask));
      }
    }
  }
}

LANCE_MULTIVERSION void unpack8(const uint8_t* packed, unsigned bits, uint8_t* out) { unpack_rows(packed, bits, out); }
LANCE_MULTIVERSION void unpack16(const uint8_t* packed, unsigned bits, uint16_t* out) {
  unpack_rows(packed, bits, out);
}
LANCE_MULTIVERSION void unpack32(const uint8_t* packed, unsigned bits, uint32_t* out) {
  unpack_rows(packed, bits, out);
}
LANCE_MULTIVERSION void unpack64(const uint8_t* packed, unsigned bits, uint64_t* out) {
  unpack_rows(packed, bits, out);
}

}  // namespace

template <class T>
void unpack_group(const uint8_t* packed, unsigned bits, T* out) {
  if (bits == 0) {
    std::memset(out, 0, kGroup * sizeof(T));
  } else if constexpr (sizeof(T) == 1) {
    unpack8(packed, bits, out);
  } else if constexpr (sizeof(T) == 2) {
    unpack16(packed, bits, out);
  } else if constexpr (sizeof(T) == 4) {
    unpack32(packed, bits, out);
  } else {
    unpack64(packed, bits, out);
  }
}

template <class T>
void unpack_inline_chunk(Bytes chunk, size_t n, T* out, size_t index) {
  InlineGroup<T> group = open_inline_chunk<T>(chunk, n, index);
  if (n == kGroup) {
    unpack_group(group.packed, group.bits, out);
  } else {
    T scratch[kGroup];
    unpack_group(group.packed, group.bits, scratch);
    copy_bytes(out, scratch, n * sizeof(T));
  }
}

template <class T>
void unpack_out_of_line_chunk(Bytes chunk, size_t n, unsigned bits, T* out, size_t index) {
  auto [full, is_raw] = OutOfLineShape<T>::of(chunk.size, n, bits, index);
  size_t group_bytes = packed_bytes(bits);
  size_t tail = n % kGroup;
  for (size_t i = 0; i < full; ++i) {
    unpack_group(chunk.data + i * group_bytes, bits, out + i * kGroup);
  }
  const uint8_t* last = chunk.data + full * group_bytes;
  if (is_raw) {
    copy_bytes(out + full * kGroup, last, tail * sizeof(T));
  } else if (tail != 0) {
    T scratch[kGroup];
    unpack_group(last, bits, scratch);
    std::memcpy(out + full * kGroup, scratch, tail * sizeof(T));
  }
}

namespace {

template <class T>
Block unpack_inline_chunks(const Stream& stream, const Counts& counts) {
  for (size_t i = 0; i < stream.size(); ++i) {  // checked before a wrong total becomes an allocation
    if (counts.values[i] > static_cast<int64_t>(kGroup)) {
      corrupt("chunk %zu packs %lld values in one group of 1024", i, static_cast<long long>(counts.values[i]));
    }
  }
  Block out(static_cast<size_t>(counts.total) * sizeof(T));
  T* to = reinterpret_cast<T*>(out.data());
  bool past_caches = out.size() >= kPastCaches;
  alignas(64) T group[kGroup];
  for (size_t i = 0; i < stream.size(); ++i) {
    auto n = static_cast<size_t>(counts.values[i]);
    unpack_inline_chunk(stream.chunk(i), n, past_caches ? group : to, i);
    if (past_caches) {
      copy_past_caches(reinterpret_cast<uint8_t*>(to), reinterpret_cast<const uint8_t*>(group), n * sizeof(T));
    }
    to += n;
  }
  end_past_caches();
  return out;
}

template <class T>
Block unpack_out_of_line_chunks(const Stream& stream, const Counts& counts, unsigned bits) {
  for (size_t i = 0; bits != 0 && i < stream.size();
       ++i) {  // at least one bit per value; with 0 bits all values are zero
    if (static_cast<size_t>(counts.values[i]) / 8 > static_cast<size_t>(stream.length[i])) {
      corrupt("chunk %zu of %lld bytes for %lld packed values", i, static_cast<long long>(stream.length[i]),
              static_cast<long long>(counts.values[i]));
    }
  }
  Block out(static_cast<size_t>(counts.total) * sizeof(T));
  T* to = reinterpret_cast<T*>(out.data());
  for (size_t i = 0; i < stream.size(); ++i) {
    auto n = static_cast<size_t>(counts.values[i]);
    unpack_out_of_line_chunk(stream.chunk(i), n, bits, to, i);
    to += n;
  }
  return out;
}

}  // namespace

Block unpack_inline(const Stream& stream, const Counts& counts, unsigned word_bits) {
  require_same_chunks(stream, counts);
  switch (word_bits) {
    case 8:
      return unpack_inline_chunks<uint8_t>(stream, counts);
    case 16:
      return unpack_inline_chunks<uint16_t>(stream, counts);
    case 32:
      return unpack_inline_chunks<uint32_t>(stream, counts);
    case 64:
      return unpack_inline_chunks<uint64_t>(stream, counts);
    default:
      corrupt("bit packing of words of %u bits", word_bits);
  }
}

Block unpack_out_of_line(const Stream& stream, const Counts& counts, unsigned word_bits, unsigned bits) {
  require_same_chunks(stream, counts);
  switch (word_bits) {
    case 8:
      return unpack_out_of_line_chunks<uint8_t>(stream, counts, bits);
    case 16:
      return unpack_out_of_line_chunks<uint16_t>(stream, counts, bits);
    case 32:
      return unpack_out_of_line_chunks<uint32_t>(stream, counts, bits);
    case 64:
      return unpack_out_of_line_chunks<uint64_t>(stream, counts, bits);
    default:
      corrupt("bit packing of words of %u bits", word_bits);
  }
}

template void unpack_inline_chunk<uint16_t>(Bytes, size_t, uint16_t*, size_t);
template void unpack_out_of_line_chunk<uint16_t>(Bytes, size_t, unsigned, uint16_t*, size_t);

}  // namespace lance
