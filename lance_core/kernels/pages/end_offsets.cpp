#include "pages/end_offsets.hpp"

#include "base/bits.hpp"
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

struct PageEnds {
  const uint8_t* ends;
  size_t n;
  uint64_t adjustment;
  uint64_t begin;  // of the page among all pages
};

// Writes the offsets and the validity of one page. Returns its size.
template <class T>
uint64_t append_page(const PageEnds& page, uint64_t limit, T* out, BitWriter& validity, size_t& num_nulls) {
  bool ordered = true;
  uint64_t previous = 0;
  for (size_t i = 0; i < page.n; ++i) {
    auto end = load<uint64_t>(page.ends + 8 * i);
    bool is_null = end >= page.adjustment;
    end -= is_null ? page.adjustment : 0;
    ordered &= end >= previous;
    out[i] = static_cast<T>(page.begin + end);
    validity.append(!is_null);
    num_nulls += is_null;
    previous = end;
  }
  if (!ordered || previous > limit) {
    corrupt("ends of %zu values decrease or exceed %llu", page.n, static_cast<unsigned long long>(limit));
  }
  return previous;
}

template <class T>
JoinedEnds join(Bytes ends, size_t total, const std::vector<int64_t>& num_values,
                const std::vector<int64_t>& adjustments, const std::vector<int64_t>& limits) {
  constexpr int64_t kMostBytes = int64_t{1} << 48;
  JoinedEnds result;
  result.offsets = Block((total + 1) * sizeof(T));
  result.validity = Block(ceil8(total));
  T* out = reinterpret_cast<T*>(result.offsets.data());
  *out++ = 0;
  BitWriter validity(result.validity.data());
  uint64_t begin = 0;
  for (size_t i = 0; i < num_values.size(); ++i) {
    auto n = static_cast<size_t>(num_values[i]);
    if (adjustments[i] < 0 || limits[i] < 0 || limits[i] > kMostBytes) {
      corrupt("page %zu has %lld bytes or items", i, static_cast<long long>(limits[i]));
    }
    PageEnds page{ends.data, n, static_cast<uint64_t>(adjustments[i]), begin};
    uint64_t size = append_page(page, static_cast<uint64_t>(limits[i]), out, validity, result.num_nulls);
    result.sizes.push_back(static_cast<int64_t>(size));
    begin += size;
    if (begin > (sizeof(T) == 4 ? uint64_t{INT32_MAX} : static_cast<uint64_t>(kMostBytes))) {
      throw OffsetOverflow("more bytes or items than offsets can address");
    }
    out += n;
    ends.data += 8 * n;
  }
  if (result.num_nulls == 0) {
    result.validity = Block();
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

JoinedEnds join_null_ends(Bytes ends, const std::vector<int64_t>& num_values, const std::vector<int64_t>& adjustments,
                          const std::vector<int64_t>& limits, unsigned offset_bits) {
  size_t pages = num_values.size();
  if (adjustments.size() != pages || limits.size() != pages) {
    corrupt("%zu adjustments and %zu limits for %zu pages", adjustments.size(), limits.size(), pages);
  }
  size_t total = 0;
  for (int64_t n : num_values) {
    if (n < 0 || static_cast<size_t>(n) > ends.size / 8 - total) {
      corrupt("%zu bytes for the ends of %zu values, and of %lld more", ends.size, total, static_cast<long long>(n));
    }
    total += static_cast<size_t>(n);
  }
  return offset_bytes(offset_bits) == 4 ? join<uint32_t>(ends, total, num_values, adjustments, limits)
                                        : join<uint64_t>(ends, total, num_values, adjustments, limits);
}

}  // namespace lance
