#include "index/key_set.hpp"

#include <algorithm>

#include "base/common.hpp"

namespace lance {

namespace {

constexpr uint64_t kUpperShift = 32;
// A bitmap has at most so many bits per key. It may be eight times as large as a list, and is much faster to ask.
constexpr uint64_t kMostBitsPerKey = 256;

}  // namespace

KeySet::KeySet(const uint64_t* keys, size_t count) {
  for (size_t start = 0, end = 0; start < count; start = end) {
    uint64_t upper = keys[start] >> kUpperShift;
    for (end = start + 1; end < count && keys[end] >> kUpperShift == upper; ++end) {
      if (keys[end] < keys[end - 1]) corrupt("row keys that are not ascending");
    }
    if (!groups_.empty() && groups_.back().upper >= upper) corrupt("row keys that are not ascending");
    Group& group = groups_.emplace_back(Group{upper, static_cast<uint32_t>(keys[start]), {}, {}});
    uint64_t num_bits = keys[end - 1] - keys[start] + 1;
    if (num_bits <= kMostBitsPerKey * (end - start)) {
      group.bits.resize((num_bits + 63) / 64);
      for (size_t i = start; i < end; ++i) {
        uint64_t place = keys[i] - keys[start];
        group.bits[place / 64] |= uint64_t{1} << (place % 64);
      }
    } else {
      for (size_t i = start; i < end; ++i) group.lower.push_back(static_cast<uint32_t>(keys[i]));
    }
  }
}

bool KeySet::Group::has(uint32_t key) const {
  if (bits.empty()) return std::binary_search(lower.begin(), lower.end(), key);
  uint64_t place = uint64_t{key} - first;  // wraps around for keys before the first, which are beyond the end then
  return place / 64 < bits.size() && (bits[place / 64] >> (place % 64) & 1) != 0;
}

void KeySet::flags(const uint64_t* keys, size_t count, uint8_t* flags) const {
  const Group* group = nullptr;
  for (size_t i = 0; i < count; ++i) {
    uint64_t upper = keys[i] >> kUpperShift;
    if (group == nullptr || group->upper != upper) {
      auto found = std::lower_bound(groups_.begin(), groups_.end(), upper,
                                    [](const Group& each, uint64_t wanted) { return each.upper < wanted; });
      if (found == groups_.end() || found->upper != upper) {
        flags[i] = 0;
        continue;
      }
      group = &*found;
    }
    flags[i] = group->has(static_cast<uint32_t>(keys[i])) ? 1 : 0;
  }
}

}  // namespace lance
