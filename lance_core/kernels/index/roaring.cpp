#include "index/roaring.hpp"

#include <algorithm>

#include "base/variable.hpp"

namespace lance {
namespace {

constexpr uint32_t kCookieWithoutRuns = 12346;
constexpr size_t kMostArrayKeys = 4096;
constexpr size_t kBitsetBytes = 8192;
constexpr size_t kKeysOfContainer = 65536;
constexpr size_t kHeaderBytes = 8;           // cookie and number of containers
constexpr size_t kContainerHeaderBytes = 8;  // shared bits, number of keys, and place

// Appends numbers to memory of sufficient size.
class Output {
 public:
  explicit Output(uint8_t* to) : to_(to) {}

  template <class T>
  void add(T value) {
    store(to_, value);
    to_ += sizeof(T);
  }
  void copy(const uint8_t* from, size_t bytes) {
    copy_bytes(to_, from, bytes);
    to_ += bytes;
  }

 private:
  uint8_t* to_;
};

const KeyContainer* end_of_upper_half(const KeyContainer* begin, const KeyContainer* end) {
  return std::find_if(begin, end, [&](const KeyContainer& each) { return each.high >> 16 != begin->high >> 16; });
}

size_t bitmap_bytes(const KeyContainer* begin, const KeyContainer* end) {
  size_t size = kHeaderBytes;
  for (; begin != end; ++begin) size += kContainerHeaderBytes + container_bytes(begin->count);
  return size;
}

void write_bitmap(const KeyContainer* begin, const KeyContainer* end, Output& out) {
  out.add(kCookieWithoutRuns);
  out.add(static_cast<uint32_t>(end - begin));
  for (const auto* each = begin; each != end; ++each) {
    out.add(static_cast<uint16_t>(each->high));
    out.add(static_cast<uint16_t>(each->count - 1));
  }
  size_t place = kHeaderBytes + kContainerHeaderBytes * static_cast<size_t>(end - begin);
  for (const auto* each = begin; each != end; ++each) {
    out.add(static_cast<uint32_t>(place));
    place += container_bytes(each->count);
  }
  for (const auto* each = begin; each != end; ++each) out.copy(each->data, container_bytes(each->count));
}

void write_set(const KeyContainer* begin, const KeyContainer* end, SetContainer form, Output& out) {
  uint64_t num_bitmaps = 0;
  for (const auto* at = begin; at != end; at = end_of_upper_half(at, end)) ++num_bitmaps;
  if (form == SetContainer::tree_map) {
    out.add(static_cast<uint32_t>(num_bitmaps));
  } else {
    out.add(num_bitmaps);
  }
  while (begin != end) {
    const auto* next = end_of_upper_half(begin, end);
    out.add(static_cast<uint32_t>(begin->high >> 16));
    if (form == SetContainer::tree_map) out.add(static_cast<uint32_t>(bitmap_bytes(begin, next)));
    write_bitmap(begin, next, out);
    begin = next;
  }
}

// Sets the bits of the keys of a container in 65536 bits.
void add_to_bits(const KeyContainer& container, uint8_t* bits) {
  if (container.count > kMostArrayKeys) {
    for (size_t i = 0; i < kBitsetBytes; i += 8) {
      store(bits + i, load<uint64_t>(bits + i) | load<uint64_t>(container.data + i));
    }
    return;
  }
  for (size_t i = 0; i < container.count; ++i) {
    auto number = load<uint16_t>(container.data + 2 * i);
    bits[number >> 3] |= static_cast<uint8_t>(1u << (number & 7));
  }
}

KeyContainer merge(const KeyContainer* begin, const KeyContainer* end, MergedContainers& merged) {
  std::vector<uint8_t> bits(kBitsetBytes);
  for (const auto* each = begin; each != end; ++each) add_to_bits(*each, bits.data());
  size_t count = 0;
  for (size_t i = 0; i < kBitsetBytes; i += 8) {
    count += static_cast<size_t>(__builtin_popcountll(load<uint64_t>(bits.data() + i)));
  }
  if (count <= kMostArrayKeys) {
    std::vector<uint8_t> numbers(2 * count);
    uint8_t* to = numbers.data();
    for (size_t i = 0; i < kBitsetBytes; i += 8) {
      for (auto word = load<uint64_t>(bits.data() + i); word != 0; word &= word - 1, to += 2) {
        store(to, static_cast<uint16_t>(8 * i + static_cast<size_t>(__builtin_ctzll(word))));
      }
    }
    bits = std::move(numbers);
  }
  merged.push_back(std::move(bits));
  return {begin->high, merged.back().data(), static_cast<uint32_t>(count), 0};
}

Bytes take(Bytes& data, size_t bytes) {
  Bytes taken = data.slice(0, bytes);
  data = {data.data + bytes, data.size - bytes};
  return taken;
}

void read_bitmap(uint64_t upper, Bytes& data, std::vector<KeyContainer>& containers) {
  Bytes header = take(data, kHeaderBytes);
  auto cookie = load<uint32_t>(header.data), n = load<uint32_t>(header.data + 4);
  if (cookie != kCookieWithoutRuns || n > kKeysOfContainer) corrupt("a bitmap of %u containers, cookie %u", n, cookie);
  Bytes entries = take(data, kContainerHeaderBytes * n);
  for (size_t i = 0; i < n; ++i) {
    auto high = load<uint16_t>(entries.data + 4 * i);
    uint32_t count = uint32_t{load<uint16_t>(entries.data + 4 * i + 2)} + 1;
    containers.push_back({upper << 16 | high, take(data, container_bytes(count)).data, count, 0});
  }
}

}  // namespace

size_t container_bytes(size_t num_keys) { return num_keys > kMostArrayKeys ? kBitsetBytes : 2 * num_keys; }

void write_container(const uint16_t* numbers, size_t n, uint8_t* to) {
  if (n <= kMostArrayKeys) {
    copy_bytes(to, numbers, 2 * n);
    return;
  }
  std::memset(to, 0, kBitsetBytes);
  for (size_t i = 0; i < n; ++i) to[numbers[i] >> 3] |= static_cast<uint8_t>(1u << (numbers[i] & 7));
}

void normalize(std::vector<KeyContainer>& containers, size_t first, MergedContainers& merged) {
  auto begin = containers.begin() + static_cast<std::ptrdiff_t>(first);
  auto above = [](const KeyContainer& a, const KeyContainer& b) { return a.high >= b.high; };
  if (std::adjacent_find(begin, containers.end(), above) == containers.end()) return;
  std::stable_sort(begin, containers.end(),
                   [](const KeyContainer& a, const KeyContainer& b) { return a.high < b.high; });
  auto to = begin;
  for (auto from = begin; from != containers.end();) {
    auto next = std::find_if(from, containers.end(), [&](const KeyContainer& each) { return each.high != from->high; });
    *to++ = next - from == 1 ? *from : merge(&*from, &*from + (next - from), merged);
    from = next;
  }
  containers.erase(to, containers.end());
}

size_t set_bytes(const KeyContainer* begin, const KeyContainer* end, SetContainer form) {
  bool is_tree_map = form == SetContainer::tree_map;
  size_t size = is_tree_map ? 4 : 8;
  while (begin != end) {
    const auto* next = end_of_upper_half(begin, end);
    size += (is_tree_map ? 8 : 4) + bitmap_bytes(begin, next);
    begin = next;
  }
  return size;
}

RowSets write_sets(const std::vector<KeyContainer>& containers, const std::vector<size_t>& ends, SetContainer form) {
  RowSets sets{Block(4 * (ends.size() + 1)), Block()};
  store<int32_t>(sets.offsets.data(), 0);
  size_t size = 0, start = 0;
  for (size_t i = 0; i < ends.size(); start = ends[i++]) {
    size += set_bytes(containers.data() + start, containers.data() + ends[i], form);
    if (size > INT32_MAX) throw OffsetOverflow("more bytes than 32-bit offsets can address");
    store(sets.offsets.data() + 4 * (i + 1), static_cast<int32_t>(size));
  }
  sets.data = Block(size);
  Output out(sets.data.data());
  start = 0;
  for (size_t end : ends) {
    write_set(containers.data() + start, containers.data() + end, form, out);
    start = end;
  }
  return sets;
}

void read_set(Bytes data, SetContainer form, std::vector<KeyContainer>& containers) {
  bool is_tree_map = form == SetContainer::tree_map;
  Bytes header = take(data, is_tree_map ? 4 : 8);
  uint64_t num_bitmaps = is_tree_map ? load<uint32_t>(header.data) : load<uint64_t>(header.data);
  for (uint64_t i = 0; i < num_bitmaps; ++i) {
    auto upper = load<uint32_t>(take(data, 4).data);
    if (is_tree_map) take(data, 4);
    read_bitmap(upper, data, containers);
  }
}

RowSets unite_sets(Bytes ends, Bytes offsets, Bytes data, SetContainer form) {
  size_t num_groups = ends.size / 8, num_sets = offsets.size / 4;
  num_sets -= num_sets > 0;
  check_offsets(offsets, num_sets, data.size, 32);
  std::vector<KeyContainer> containers;
  std::vector<size_t> container_ends;
  MergedContainers merged;
  size_t set = 0;
  for (size_t group = 0; group < num_groups; ++group) {
    auto end = static_cast<size_t>(load<int64_t>(ends.data + 8 * group));
    if (end < set || end > num_sets) corrupt("group %zu ends at %zu of %zu sets", group, end, num_sets);
    size_t first = containers.size();
    for (; set < end; ++set) {
      auto start = load<uint32_t>(offsets.data + 4 * set), stop = load<uint32_t>(offsets.data + 4 * set + 4);
      read_set(data.slice(start, stop - start), form, containers);
    }
    normalize(containers, first, merged);
    container_ends.push_back(containers.size());
  }
  return write_sets(containers, container_ends, form);
}

}  // namespace lance
