#include "encode/dictionary.hpp"

#include <algorithm>

namespace lance {
namespace {

// A value with its first and last bytes, which are compared first. They suffice for values of up to 16 bytes.
struct Key {
  const uint8_t* data;
  size_t size;
  uint64_t head;  // the first eight bytes; all bytes of a shorter value, in some order
  uint64_t tail;  // the last eight bytes; 0 for values of up to eight bytes

  bool operator==(const Key& other) const {
    return head == other.head && tail == other.tail && size == other.size &&
           (size <= 16 || std::memcmp(data, other.data, size) == 0);
  }
};

inline Key key_of(const uint8_t* data, size_t size) {
  if (size > 8) return {data, size, load<uint64_t>(data), load<uint64_t>(data + size - 8)};
  if (size == 8) return {data, size, load<uint64_t>(data), 0};
  if (size >= 4) {
    return {data, size, uint64_t{load<uint32_t>(data)} << 32 | load<uint32_t>(data + size - 4), 0};
  }
  if (size == 0) return {data, size, 0, 0};
  return {data, size, uint64_t{data[0]} << 16 | uint64_t{data[size / 2]} << 8 | data[size - 1], 0};
}

inline uint64_t mix(uint64_t a, uint64_t b) {
  auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_of(const Key& key) {
  uint64_t hash = mix(key.head ^ 0x9e3779b97f4a7c15u, key.tail ^ key.size ^ 0xe7037ed1a0b428dbu);
  for (size_t at = 8; key.size > 16 && at < key.size - 8; at += 8) {
    hash = mix(hash ^ load<uint64_t>(key.data + at), 0x8ebc6af09c88c6e3u);
  }
  return hash;
}

// The items found so far, in a hash table with open addressing. A slot has the number of an item plus one, and its
// hash.
class Items {
 public:
  Items() : slots_(kFirstSlots) {}

  size_t size() const { return keys_.size(); }

  // Returns the number of the item of a value, which may be a new item.
  inline __attribute__((always_inline)) uint32_t find_or_add(const Key& key) {
    uint64_t hash = hash_of(key);
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.item == 0) return add(key, hash, at);
      if (slot.hash == hash && keys_[slot.item - 1] == key) return slot.item - 1;
    }
  }

 private:
  static constexpr size_t kFirstSlots = 1024;
  struct Slot {
    uint64_t hash = 0;
    uint32_t item = 0;
  };

  __attribute__((noinline)) uint32_t add(const Key& key, uint64_t hash, size_t at) {
    keys_.push_back(key);
    auto number = static_cast<uint32_t>(keys_.size());
    slots_[at] = {hash, number};
    if (keys_.size() * 2 >= slots_.size()) grow();
    return number - 1;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 4);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.item == 0) continue;
      size_t at = slot.hash & (slots_.size() - 1);
      while (slots_[at].item != 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::vector<Key> keys_;
};

template <class KeyAt>
Distinct find(size_t n, Validity validity, size_t max_items, KeyAt key_at) {
  Distinct out;
  out.indices = Block(n * 4);
  Items items;
  uint32_t item = 0;
  for (size_t i = 0; i < n; ++i) {
    // A null repeats the index before it, so that it ends no run. At the beginning of a group it gets index 0, which
    // takes no bits if the group has only nulls.
    if (i % 1024 == 0) item = 0;
    if (validity[i]) {
      size_t known = items.size();
      item = items.find_or_add(key_at(i));
      if (item == known) {
        if (known == max_items) return {};
        out.first.push_back(static_cast<int64_t>(i));
      }
    }
    store(out.indices.data() + 4 * i, item);
  }
  out.complete = true;
  return out;
}

template <class KeyAt>
Sampled sample(size_t n, Validity validity, size_t step, size_t most, KeyAt key_at) {
  Sampled out;
  Items items;
  for (size_t i = 0, taken = 0; i < n && taken < most; i += step, ++taken) {
    if (!validity[i]) continue;
    items.find_or_add(key_at(i));
    ++out.valid;
  }
  out.distinct = items.size();
  return out;
}

// Calls `body` with a function that returns the key of a value.
template <class Body>
auto with_keys(const DictionarySource& source, Validity validity, Body body) {
  size_t n = source.num_values;
  if (!validity.absent() &&
      (validity.offset > validity.bits.size * 8 || n > validity.bits.size * 8 - validity.offset)) {
    corrupt("%zu bytes for %zu bits from bit %zu on", validity.bits.size, n, validity.offset);
  }
  if (source.offset_bits == 0) {
    size_t width = source.width;
    if (width == 0 || source.data.size / width < n) {
      corrupt("%zu bytes for %zu values of %zu bytes", source.data.size, n, width);
    }
    const uint8_t* data = source.data.data;
    if (width == 8) return body([=](size_t i) { return key_of(data + i * 8, 8); });
    return body([=](size_t i) { return key_of(data + i * width, width); });
  }
  check_offsets(source.offsets, n, source.data.size, source.offset_bits);
  OffsetReader offset(source.offsets.data, source.offset_bits);
  const uint8_t* data = source.data.data;
  return body([=](size_t i) { return key_of(data + offset[i], static_cast<size_t>(offset[i + 1] - offset[i])); });
}

}  // namespace

Distinct find_distinct(const DictionarySource& source, Validity validity, size_t max_items) {
  if (max_items >= UINT32_MAX / 2) {
    corrupt("a dictionary of %zu items", max_items);
  }
  return with_keys(source, validity, [&](auto key_at) { return find(source.num_values, validity, max_items, key_at); });
}

Sampled sample_distinct(const DictionarySource& source, Validity validity, size_t step, size_t most) {
  if (step == 0 || most >= UINT32_MAX / 2) {
    corrupt("a sample of %zu values, each %zu", most, step);
  }
  return with_keys(source, validity,
                   [&](auto key_at) { return sample(source.num_values, validity, step, most, key_at); });
}

}  // namespace lance
