#include "pages/end_offsets.hpp"

#include "base/variable.hpp"

namespace lance {
namespace {

// Sets the bits of the values that are not null. Returns the number of nulls.
size_t find_nulls(const uint8_t* ends, size_t n, uint64_t adjustment, uint8_t* validity) {
  size_t num_nulls = 0;
  for (size_t i = 0; i < n; i += 8) {
    size_t count = n - i < 8 ? n - i : 8;
    unsigned valid = 0;
    for (size_t k = 0; k < count; ++k) {
      valid |= static_cast<unsigned>(load<uint64_t>(ends + 8 * (i + k)) < adjustment) << k;
    }
    validity[i / 8] = static_cast<uint8_t>(valid);
    num_nulls += count - static_cast<size_t>(__builtin_popcount(valid));
  }
  return num_nulls;
}

// Writes ends counted from `begin`. Returns false if they decrease. Sets `last` to the end of the last value.
template <class T, bool kNulls>
bool rebase(const uint8_t* ends, size_t n, uint64_t adjustment, uint64_t begin, T* out, uint64_t& last) {
  bool ordered = true;
  uint64_t previous = begin;
  for (size_t i = 0; i < n; ++i) {
    auto end = load<uint64_t>(ends + 8 * i);
    if (kNulls) {
      end -= end >= adjustment ? adjustment : 0;
    }
    ordered &= end >= previous;
    out[i] = static_cast<T>(end - begin);
    previous = end;
  }
  last = previous;
  return ordered;
}

template <class T>
NullEnds split(const uint8_t* ends, size_t n, uint64_t begin, uint64_t adjustment, uint64_t limit) {
  NullEnds result;
  result.begin = begin;
  result.validity = Block(ceil8(n));
  result.num_nulls = find_nulls(ends, n, adjustment, result.validity.data());
  result.offsets = Block((n + 1) * sizeof(T));
  T* out = reinterpret_cast<T*>(result.offsets.data());
  *out++ = 0;
  bool ordered = result.num_nulls != 0 ? rebase<T, true>(ends, n, adjustment, begin, out, result.end)
                                       : rebase<T, false>(ends, n, adjustment, begin, out, result.end);
  if (result.num_nulls == 0) {
    result.validity = Block();
  }
  if (!ordered || result.end > limit) {
    corrupt("ends of %zu values decrease or exceed %llu", n, static_cast<unsigned long long>(limit));
  }
  if (sizeof(T) == 4 && result.end - begin > INT32_MAX) {
    throw OffsetOverflow("more bytes or items than 32-bit offsets can address");
  }
  return result;
}

}  // namespace

NullEnds split_null_ends(Bytes ends, size_t n, bool has_previous, uint64_t adjustment, uint64_t limit,
                         unsigned offset_bits) {
  size_t before = has_previous ? 1 : 0;
  if (ends.size / 8 < before || ends.size / 8 - before < n) {
    corrupt("%zu bytes for the ends of %zu values", ends.size, n);
  }
  uint64_t begin = 0;
  if (has_previous) {
    begin = load<uint64_t>(ends.data);
    begin -= begin >= adjustment ? adjustment : 0;
  }
  const uint8_t* first = ends.data + 8 * before;
  return offset_bytes(offset_bits) == 4 ? split<uint32_t>(first, n, begin, adjustment, limit)
                                        : split<uint64_t>(first, n, begin, adjustment, limit);
}

}  // namespace lance
