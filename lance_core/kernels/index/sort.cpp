#include "index/sort.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace lance {
namespace {

struct Pair {
  uint64_t value;
  uint64_t row;
};

constexpr size_t kDigitBits = 11;
constexpr size_t kDigits = 6;  // 6 * 11 bits cover a value
constexpr size_t kBuckets = size_t{1} << kDigitBits;
constexpr size_t kFewPairs = 256;

size_t digit(uint64_t value, size_t number) { return (value >> (number * kDigitBits)) & (kBuckets - 1); }

// Sorts by value, least significant digit first. A digit that is the same in all values costs nothing.
void sort_pairs(Pair* pairs, Pair* spare, size_t n) {
  if (n < kFewPairs) {
    std::stable_sort(pairs, pairs + n, [](const Pair& a, const Pair& b) { return a.value < b.value; });
    return;
  }
  std::vector<std::array<size_t, kBuckets>> counts(kDigits);
  for (auto& each : counts) each.fill(0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t d = 0; d < kDigits; ++d) ++counts[d][digit(pairs[i].value, d)];
  }
  Pair* from = pairs;
  Pair* to = spare;
  for (size_t d = 0; d < kDigits; ++d) {
    auto& count = counts[d];
    if (count[digit(from[0].value, d)] == n) continue;
    size_t start = 0;
    for (size_t& each : count) start += std::exchange(each, start);
    for (size_t i = 0; i < n; ++i) to[count[digit(from[i].value, d)]++] = from[i];
    std::swap(from, to);
  }
  if (from != pairs) std::copy(from, from + n, pairs);
}

// Strings of bytes of an Arrow array.
struct Strings {
  OffsetReader offsets;
  Bytes data;

  Bytes at(size_t i) const { return {data.data + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i])}; }

  // Returns 8 bytes from `depth` on as a number that sorts like them. Bytes after the end count as zeros.
  uint64_t word(size_t i, size_t depth) const {
    Bytes string = at(i);
    if (string.size >= depth + 8) return __builtin_bswap64(load<uint64_t>(string.data + depth));
    uint64_t value = 0;
    if (string.size > depth) std::memcpy(&value, string.data + depth, string.size - depth);
    return __builtin_bswap64(value);
  }

  bool less(uint64_t a, uint64_t b, size_t depth) const {
    Bytes left = at(a), right = at(b);
    size_t shared = std::min(left.size, right.size);
    if (shared > depth) {
      int order = std::memcmp(left.data + depth, right.data + depth, shared - depth);
      if (order != 0) return order < 0;
    }
    return left.size < right.size;
  }
};

constexpr size_t kFewStrings = 64;
constexpr size_t kAhead = 16;  // strings that are fetched while others are copied

// Returns up to which byte, at most `limit`, two strings are equal that are equal up to byte `from`.
size_t equal_until(Bytes a, Bytes b, size_t from, size_t limit) {
  limit = std::min({limit, a.size, b.size});
  if (std::memcmp(a.data + from, b.data + from, limit - from) == 0) return limit;
  while (a.data[from] == b.data[from]) ++from;
  return from;
}

// Sorts strings that are equal in their first `depth` bytes. `row` of a pair is the position of its string.
void sort_strings(const Strings& strings, Pair* pairs, Pair* spare, size_t n, size_t depth) {
  for (;;) {
    if (n < kFewStrings) {
      std::stable_sort(pairs, pairs + n,
                       [&](const Pair& a, const Pair& b) { return strings.less(a.row, b.row, depth); });
      return;
    }
    size_t longest = 0, shortest = SIZE_MAX;
    for (size_t i = 0; i < n; ++i) {
      size_t size = strings.at(pairs[i].row).size;
      longest = std::max(longest, size);
      shortest = std::min(shortest, size);
    }
    size_t shared = shortest;
    for (size_t i = 1; i < n && shared > depth; ++i) {
      shared = equal_until(strings.at(pairs[0].row), strings.at(pairs[i].row), depth, shared);
    }
    depth = std::max(depth, shared);
    bool is_end = longest <= depth;  // the strings differ at most in the number of zeros at their end
    if (is_end && longest == shortest) return;
    for (size_t i = 0; i < n; ++i) {
      pairs[i].value = is_end ? strings.at(pairs[i].row).size : strings.word(pairs[i].row, depth);
    }
    sort_pairs(pairs, spare, n);
    if (is_end) return;
    depth += 8;
    if (pairs[0].value == pairs[n - 1].value) continue;
    for (size_t start = 0; start < n;) {
      size_t end = start + 1;
      while (end < n && pairs[end].value == pairs[start].value) ++end;
      if (end - start > 1) sort_strings(strings, pairs + start, spare, end - start, depth);
      start = end;
    }
    return;
  }
}

}  // namespace

Block sort_rows(const std::vector<Bytes>& values, const std::vector<Bytes>& rows) {
  if (values.size() != rows.size()) corrupt("%zu parts of values and %zu of row keys", values.size(), rows.size());
  size_t n = 0;
  for (size_t part = 0; part < values.size(); ++part) {
    if (values[part].size != rows[part].size || values[part].size % 8 != 0) {
      corrupt("%zu bytes of values and %zu bytes of row keys", values[part].size, rows[part].size);
    }
    n += values[part].size / 8;
  }
  Block pairs(n * sizeof(Pair)), spare(n * sizeof(Pair));
  auto* pair = reinterpret_cast<Pair*>(pairs.data());
  for (size_t part = 0; part < values.size(); ++part) {
    for (size_t at = 0; at < values[part].size; at += 8) {
      *pair++ = {load<uint64_t>(values[part].data + at), load<uint64_t>(rows[part].data + at)};
    }
  }
  pair = reinterpret_cast<Pair*>(pairs.data());
  sort_pairs(pair, reinterpret_cast<Pair*>(spare.data()), n);
  for (size_t i = 0; i < n; ++i) {
    store(spare.data() + 8 * i, pair[i].value);
    store(spare.data() + 8 * (n + i), pair[i].row);
  }
  return spare;
}

SortedStrings sort_variable(Bytes offsets, Bytes data, Bytes rows, size_t n, unsigned offset_bits) {
  check_offsets(offsets, n, data.size, offset_bits);
  if (rows.size / 8 != n || rows.size % 8 != 0) corrupt("%zu bytes of row keys for %zu strings", rows.size, n);
  Strings strings{OffsetReader(offsets.data, offset_bits), data};
  Block pairs(n * sizeof(Pair));
  auto* pair = reinterpret_cast<Pair*>(pairs.data());
  for (size_t i = 0; i < n; ++i) pair[i] = {0, i};
  {
    Block spare(n * sizeof(Pair));
    sort_strings(strings, pair, reinterpret_cast<Pair*>(spare.data()), n, 0);
  }
  size_t num_bytes = n == 0 ? 0 : static_cast<size_t>(strings.offsets[n] - strings.offsets[0]);
  size_t width = offset_bytes(offset_bits);
  SortedStrings sorted{{Block((n + 1) * width), Block(num_bytes), n}, Block(8 * n)};
  uint8_t* end = sorted.strings.data.data();
  auto put_offset = [&](size_t i) {
    auto offset = static_cast<uint64_t>(end - sorted.strings.data.data());
    offset_bits == 64 ? store(sorted.strings.offsets.data() + 8 * i, offset)
                      : store(sorted.strings.offsets.data() + 4 * i, static_cast<uint32_t>(offset));
  };
  put_offset(0);
  for (size_t i = 0; i < n; ++i) {
    if (i + kAhead < n) __builtin_prefetch(strings.at(pair[i + kAhead].row).data);
    Bytes string = strings.at(pair[i].row);
    copy_bytes(end, string.data, string.size);
    end += string.size;
    put_offset(i + 1);
    store(sorted.rows.data() + 8 * i, load<uint64_t>(rows.data + 8 * pair[i].row));
  }
  return sorted;
}

}  // namespace lance
