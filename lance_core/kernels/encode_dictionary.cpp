#include "encode_dictionary.hpp"

#include <algorithm>

namespace lance {
namespace {

constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15u;

inline uint64_t hash_of(Bytes value) {
  uint64_t hash = value.size * kMultiplier;
  const uint8_t* from = value.data;
  size_t left = value.size;
  for (; left >= 8; left -= 8, from += 8) {
    hash = (hash ^ load<uint64_t>(from)) * kMultiplier;
    hash ^= hash >> 32;
  }
  if (left != 0) {
    uint64_t word = 0;
    std::memcpy(&word, from, left);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
  }
  return hash * kMultiplier;
}

// Open addressing; slots hold the item's number plus one and the upper half of its hash.
class Table {
 public:
  Table() : slots_(kFirstSlots) {}

  // The number of the item, or that of a new one; `same` compares with a known item.
  template <class Same>
  uint32_t find_or_add(uint64_t hash, uint32_t num_items, Same same) {
    if (num_items * 2 >= slots_.size()) {
      grow();
    }
    for (size_t at = slot_of(hash);; at = (at + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[at];
      if (slot.item == 0) {
        slot = {hash, num_items + 1};
        return num_items;
      }
      if (slot.hash == hash && same(slot.item - 1)) {
        return slot.item - 1;
      }
    }
  }

 private:
  static constexpr size_t kFirstSlots = 1024;
  struct Slot {
    uint64_t hash = 0;
    uint32_t item = 0;
  };

  size_t slot_of(uint64_t hash) const { return static_cast<size_t>(hash >> 40) & (slots_.size() - 1); }

  void grow() {
    std::vector<Slot> old(slots_.size() * 4);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.item != 0) {
        size_t at = slot_of(slot.hash);
        while (slots_[at].item != 0) {
          at = (at + 1) & (slots_.size() - 1);
        }
        slots_[at] = slot;
      }
    }
  }

  std::vector<Slot> slots_;
};

template <class ValueAt>
Distinct find(size_t n, Validity validity, size_t max_items, ValueAt value_at) {
  Distinct out;
  out.indices = Block(n * 4);
  Table table;
  for (size_t i = 0; i < n; ++i) {
    uint32_t item = 0;
    if (validity[i]) {
      Bytes value = value_at(i);
      auto num_items = static_cast<uint32_t>(out.first.size());
      item = table.find_or_add(hash_of(value), num_items, [&](uint32_t known) {
        Bytes other = value_at(static_cast<size_t>(out.first[known]));
        return other.size == value.size && (value.size == 0 || std::memcmp(other.data, value.data, value.size) == 0);
      });
      if (item == num_items) {
        if (num_items == max_items) {
          return {};
        }
        out.first.push_back(static_cast<int64_t>(i));
      }
    }
    store(out.indices.data() + 4 * i, item);
  }
  out.complete = true;
  return out;
}

}  // namespace

Distinct find_distinct(const DictionarySource& source, Validity validity, size_t max_items) {
  size_t n = source.num_values;
  if (max_items >= UINT32_MAX / 2) {
    corrupt("a dictionary of %zu items", max_items);
  }
  if (!validity.absent() &&
      (validity.offset > validity.bits.size * 8 || n > validity.bits.size * 8 - validity.offset)) {
    corrupt("%zu bytes for %zu bits from bit %zu on", validity.bits.size, n, validity.offset);
  }
  if (source.offset_bits == 0) {
    if (source.width == 0 || source.data.size / source.width < n) {
      corrupt("%zu bytes for %zu values of %zu bytes", source.data.size, n, source.width);
    }
    return find(n, validity, max_items,
                [&](size_t i) { return Bytes{source.data.data + i * source.width, source.width}; });
  }
  check_offsets(source.offsets, n, source.data.size, source.offset_bits);
  OffsetReader offset(source.offsets.data, source.offset_bits);
  return find(n, validity, max_items, [&](size_t i) {
    return Bytes{source.data.data + offset[i], static_cast<size_t>(offset[i + 1] - offset[i])};
  });
}

}  // namespace lance
