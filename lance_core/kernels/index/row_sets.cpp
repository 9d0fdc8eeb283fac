#include "index/row_sets.hpp"

#include <algorithm>

namespace lance {
namespace {

// Portable format of Roaring bitmaps (https://github.com/RoaringBitmap/RoaringFormatSpec), without runs.
constexpr uint32_t kCookieWithoutRuns = 12346;
constexpr size_t kMostArrayValues = 4096;
constexpr size_t kBitsetBytes = 8192;

// Appends numbers to memory of sufficient size.
class Output {
 public:
  explicit Output(uint8_t* to) : to_(to) {}

  template <class T>
  void add(T value) {
    store(to_, value);
    to_ += sizeof(T);
  }
  uint8_t* zeros(size_t bytes) {
    std::memset(to_, 0, bytes);
    to_ += bytes;
    return to_ - bytes;
  }

 private:
  uint8_t* to_;
};

// Returns the end of the keys from `begin` on that share all bits above the lowest `bits`.
const uint64_t* end_of_run(const uint64_t* begin, const uint64_t* end, unsigned bits) {
  return std::find_if(begin, end, [&](uint64_t key) { return key >> bits != *begin >> bits; });
}

size_t container_bytes(size_t num_values) { return num_values > kMostArrayValues ? kBitsetBytes : 2 * num_values; }

// Size of the bitmap of the lower halves of keys with one upper half.
size_t bitmap_bytes(const uint64_t* begin, const uint64_t* end) {
  size_t size = 8;
  while (begin != end) {
    const uint64_t* next = end_of_run(begin, end, 16);
    size += 8 + container_bytes(static_cast<size_t>(next - begin));
    begin = next;
  }
  return size;
}

void write_bitmap(const uint64_t* begin, const uint64_t* end, Output& out) {
  std::vector<const uint64_t*> ends;
  for (const uint64_t* at = begin; at != end;) ends.push_back(at = end_of_run(at, end, 16));
  out.add(kCookieWithoutRuns);
  out.add(static_cast<uint32_t>(ends.size()));
  const uint64_t* at = begin;
  for (const uint64_t* next : ends) {
    out.add(static_cast<uint16_t>(*at >> 16));
    out.add(static_cast<uint16_t>(next - at - 1));
    at = next;
  }
  size_t offset = 8 + 8 * ends.size();
  at = begin;
  for (const uint64_t* next : ends) {
    out.add(static_cast<uint32_t>(offset));
    offset += container_bytes(static_cast<size_t>(next - at));
    at = next;
  }
  at = begin;
  for (const uint64_t* next : ends) {
    if (static_cast<size_t>(next - at) > kMostArrayValues) {
      uint8_t* bits = out.zeros(kBitsetBytes);
      for (; at != next; ++at) bits[(*at & 0xFFFF) >> 3] |= static_cast<uint8_t>(1u << (*at & 7));
    } else {
      for (; at != next; ++at) out.add(static_cast<uint16_t>(*at));
    }
  }
}

// Calls `each(begin, end)` for the keys of each upper half.
template <class Each>
void by_upper_half(const uint64_t* begin, const uint64_t* end, Each each) {
  while (begin != end) {
    const uint64_t* next = end_of_run(begin, end, 32);
    each(begin, next);
    begin = next;
  }
}

}  // namespace

RowSets write_row_sets(Bytes ends, Bytes keys, SetContainer container) {
  size_t num_sets = ends.size / 8, num_keys = keys.size / 8;
  Block copy(8 * num_keys);
  copy_bytes(copy.data(), keys.data, 8 * num_keys);
  auto* all = reinterpret_cast<uint64_t*>(copy.data());
  bool is_tree_map = container == SetContainer::tree_map;
  size_t count_bytes = is_tree_map ? 4 : 8, entry_bytes = is_tree_map ? 8 : 4;

  RowSets sets{Block(4 * (num_sets + 1)), Block()};
  std::vector<std::pair<const uint64_t*, const uint64_t*>> ranges;
  ranges.reserve(num_sets);
  size_t size = 0, start = 0;
  store<int32_t>(sets.offsets.data(), 0);
  for (size_t i = 0; i < num_sets; ++i) {
    auto end = static_cast<size_t>(load<int64_t>(ends.data + 8 * i));
    if (end < start || end > num_keys) corrupt("set %zu ends at %zu of %zu keys", i, end, num_keys);
    uint64_t* last = all + end;
    if (!std::is_sorted(all + start, last)) std::sort(all + start, last);
    last = std::unique(all + start, last);
    ranges.emplace_back(all + start, last);
    size += count_bytes;
    by_upper_half(all + start, last, [&](auto* from, auto* to) { size += entry_bytes + bitmap_bytes(from, to); });
    if (size > INT32_MAX) throw OffsetOverflow("more bytes than 32-bit offsets can address");
    store(sets.offsets.data() + 4 * (i + 1), static_cast<int32_t>(size));
    start = end;
  }

  sets.data = Block(size);
  Output out(sets.data.data());
  for (auto [first, last] : ranges) {
    uint64_t num_uppers = 0;
    by_upper_half(first, last, [&](auto*, auto*) { ++num_uppers; });
    if (is_tree_map) {
      out.add(static_cast<uint32_t>(num_uppers));
    } else {
      out.add(num_uppers);
    }
    by_upper_half(first, last, [&](const uint64_t* from, const uint64_t* to) {
      out.add(static_cast<uint32_t>(*from >> 32));
      if (is_tree_map) out.add(static_cast<uint32_t>(bitmap_bytes(from, to)));
      write_bitmap(from, to, out);
    });
  }
  return sets;
}

}  // namespace lance
