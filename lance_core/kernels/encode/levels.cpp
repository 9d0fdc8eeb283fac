#include "encode/levels.hpp"

#include <algorithm>
#include <array>

#include "base/bits.hpp"
#include "base/variable.hpp"
#include "encode/bitpacking.hpp"
#include "encode/runs.hpp"

namespace lance {
namespace {

void require_levels(Bytes levels, size_t n) {
  if (levels.data != nullptr && levels.size / 2 < n) {
    corrupt("%zu bytes for %zu levels", levels.size, n);
  }
}

void require_bits(const Validity& validity, size_t n) {
  if (!validity.absent() &&
      (validity.offset > validity.bits.size * 8 || n > validity.bits.size * 8 - validity.offset)) {
    corrupt("%zu bytes for %zu bits from bit %zu on", validity.bits.size, n, validity.offset);
  }
}

uint16_t level_at(Bytes levels, size_t i) { return levels.data == nullptr ? 0 : load<uint16_t>(levels.data + 2 * i); }

constexpr size_t kPart =
    4096;  // levels that are processed together: they fit into the first-level cache, and 16 bits can count them

// For each byte of a bitmap, 16 bits per bit: all set if the bit is not set.
constexpr auto kMissing = [] {
  std::array<std::array<uint16_t, 8>, 256> masks{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) masks[byte][bit] = byte >> bit & 1 ? 0 : 0xffff;
  }
  return masks;
}();

typedef uint16_t Eight __attribute__((vector_size(16)));

// Writes `null` for every bit that is not set, else 0.
void levels_of_bits(Bytes bits, size_t offset, size_t n, uint16_t null, uint8_t* to) {
  for (size_t done = 0; done < n; done += 64) {
    size_t count = std::min<size_t>(64, n - done);
    uint64_t valid = word_at(bits, offset + done, count);
    for (size_t k = 0; k < count; k += 8, valid >>= 8) {
      Eight levels;
      std::memcpy(&levels, kMissing[valid & 255].data(), sizeof levels);
      levels &= null;
      copy_bytes(to + 2 * (done + k), &levels, 2 * std::min<size_t>(8, count - k));
    }
  }
}

LANCE_MULTIVERSION size_t count_equal(const uint8_t* levels, size_t n, uint16_t level) {
  uint16_t found = 0;  // as wide as the levels, so that the compiler uses vectors
  for (size_t i = 0; i < n; ++i) found = static_cast<uint16_t>(found + (load<uint16_t>(levels + 2 * i) == level));
  return found;
}

LANCE_MULTIVERSION uint16_t highest_of(const uint8_t* levels, size_t n) {
  uint16_t highest = 0;
  for (size_t i = 0; i < n; ++i) highest = std::max(highest, load<uint16_t>(levels + 2 * i));
  return highest;
}

// Writes `value` to `to` where the level is `level`. (The other levels in `to` stay.)
LANCE_MULTIVERSION void put_equal(const uint8_t* levels, size_t n, uint16_t level, uint16_t value, uint8_t* to) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t mask = load<uint16_t>(levels + 2 * i) == level ? 0xffff : 0;
    store(to + 2 * i, static_cast<uint16_t>(load<uint16_t>(to + 2 * i) | (mask & value)));
  }
}

}  // namespace

Block shred_items(Bytes def, size_t num_entries, Validity validity, size_t num_slots, uint16_t null, uint16_t dead) {
  require_levels(def, num_entries);
  require_bits(validity, num_slots);
  Block out(num_entries * 2);
  uint8_t* to = out.data();
  if (def.data == nullptr) {
    if (num_slots != num_entries) {
      corrupt("%zu slots for %zu entries", num_slots, num_entries);
    }
    if (validity.absent()) {
      std::memset(to, 0, num_entries * 2);
    } else {
      levels_of_bits(validity.bits, validity.offset, num_entries, null, to);
    }
    return out;
  }
  size_t slot = 0;
  for (size_t i = 0; i < num_entries; ++i) {
    auto level = load<uint16_t>(def.data + 2 * i);
    if (level < dead) {
      if (slot == num_slots) {
        corrupt("more entries than the %zu slots", num_slots);
      }
      if (level == 0 && !validity[slot]) {
        level = null;
      }
      ++slot;
    }
    store(to + 2 * i, level);
  }
  if (slot != num_slots) {
    corrupt("%zu entries with a slot for %zu slots", slot, num_slots);
  }
  return out;
}

Shredded shred_lists(Bytes rep, Bytes def, size_t num_entries, Bytes offsets, unsigned offset_bits, size_t num_slots,
                     Validity validity, ListNumbers numbers) {
  require_levels(rep, num_entries);
  require_levels(def, num_entries);
  require_bits(validity, num_slots);
  if (offsets.size / offset_bytes(offset_bits) < num_slots + 1) {
    corrupt("%zu bytes of offsets for %zu lists", offsets.size, num_slots);
  }
  OffsetReader offset(offsets.data, offset_bits);
  size_t items = 0, slot = 0;
  auto length_of = [&](size_t i, uint16_t level) {
    if (level != 0 || !validity[i]) {
      return size_t{0};
    }
    size_t begin = offset[i], end = offset[i + 1];
    if (end < begin) {
      corrupt("list %zu has offsets that decrease", i);
    }
    return end - begin;
  };
  size_t total = 0;
  for (size_t i = 0; i < num_entries; ++i) {
    uint16_t level = level_at(def, i);
    if (level >= numbers.dead) {
      ++total;
      continue;
    }
    if (slot == num_slots) {
      corrupt("more entries than the %zu lists", num_slots);
    }
    size_t n = length_of(slot++, level);
    if (n > (size_t{1} << 40) || items > (size_t{1} << 40)) {
      corrupt("lists of more than 2^40 items");
    }
    items += n;
    total += n == 0 ? 1 : n;
  }
  if (slot != num_slots) {
    corrupt("%zu entries with a slot for %zu lists", slot, num_slots);
  }
  Shredded out{Block(total * 2), Block(total * 2), total};
  auto* to_rep = reinterpret_cast<uint16_t*>(out.rep.data());
  auto* to_def = reinterpret_cast<uint16_t*>(out.def.data());
  // Items after the first one of their list have zeros.
  std::memset(to_rep, 0, total * 2);
  std::memset(to_def, 0, total * 2);
  slot = 0;
  for (size_t i = 0; i < num_entries; ++i) {
    uint16_t level = level_at(def, i);
    uint16_t first = level_at(rep, i);
    size_t n = 0;
    if (level < numbers.dead) {
      first = first == 0 ? numbers.rep : first;
      n = length_of(slot, level);
      level = n != 0 ? 0 : level != 0 ? level : validity[slot] ? numbers.empty : numbers.null;
      ++slot;
    }
    *to_rep = first;
    *to_def = level;
    to_rep += n == 0 ? 1 : n;
    to_def += n == 0 ? 1 : n;
  }
  return out;
}

Block repeat_levels(Bytes levels, size_t times) {
  size_t n = levels.size / 2;
  if (times > (size_t{1} << 31) || (times != 0 && n > (size_t{1} << 40) / times)) {
    corrupt("%zu levels repeated %zu times", n, times);
  }
  Block out(n * times * 2);
  auto* to = reinterpret_cast<uint16_t*>(out.data());
  for (size_t i = 0; i < n; ++i) {
    std::fill(to, to + times, load<uint16_t>(levels.data + 2 * i));
    to += times;
  }
  return out;
}

std::vector<int64_t> count_levels(Bytes levels, size_t highest) {
  std::vector<int64_t> counts(highest + 1);
  std::vector<uint16_t> seen;  // few levels occur in a page, and each is counted in a pass of its own
  size_t n = levels.size / 2;
  for (size_t first = 0; first < n; first += kPart) {
    const uint8_t* part = levels.data + 2 * first;
    size_t size = std::min(kPart, n - first), found = 0;
    for (uint16_t level : seen) {
      size_t times = count_equal(part, size, level);
      counts[level] += static_cast<int64_t>(times);
      found += times;
    }
    for (size_t i = 0; found != size; ++i) {
      auto level = load<uint16_t>(part + 2 * i);
      if (level > highest) {
        corrupt("level %u above %zu", level, highest);
      }
      if (std::find(seen.begin(), seen.end(), level) == seen.end()) {
        seen.push_back(level);
        size_t times = count_equal(part, size, level);
        counts[level] += static_cast<int64_t>(times);
        found += times;
      }
    }
  }
  return counts;
}

LANCE_MULTIVERSION size_t count_changes(Bytes levels) {
  size_t n = levels.size / 2, total = 0;
  for (size_t i = 1; i < n;) {
    uint16_t found = 0;  // as wide as the levels, so that the compiler uses vectors
    for (size_t end = i + std::min<size_t>(n - i, 4096); i < end; ++i) {
      found = static_cast<uint16_t>(found +
                                    (load<uint16_t>(levels.data + 2 * i) != load<uint16_t>(levels.data + 2 * (i - 1))));
    }
    total += found;
  }
  return total;
}

Block map_levels(Bytes levels, const std::vector<int64_t>& map) {
  size_t n = levels.size / 2;
  Block out(n * 2);
  std::memset(out.data(), 0, n * 2);
  for (size_t first = 0; first < n; first += kPart) {
    const uint8_t* part = levels.data + 2 * first;
    size_t size = std::min(kPart, n - first), highest = highest_of(part, size);
    if (highest >= map.size()) {
      corrupt("level %zu in a map of %zu", highest, map.size());
    }
    for (size_t level = 0; level <= highest; ++level) {
      if (map[level] != 0) {
        put_equal(part, size, static_cast<uint16_t>(level), static_cast<uint16_t>(map[level]), out.data() + 2 * first);
      }
    }
  }
  return out;
}

size_t levels_bytes(const uint8_t* levels, size_t n, LevelEncoding encoding) {
  switch (encoding.coding) {
    case LevelCoding::flat:
      return 2 * n;
    case LevelCoding::bitpacked:
      return out_of_line_bytes<uint16_t>(n, encoding.bits);
    case LevelCoding::runs:
      return 8 + 3 * count_runs<uint16_t>(levels, n);
    default:
      corrupt("levels are not written in this coding");
  }
}

void write_levels(const uint8_t* levels, size_t n, LevelEncoding encoding, uint8_t* out) {
  switch (encoding.coding) {
    case LevelCoding::flat:
      copy_bytes(out, levels, 2 * n);
      return;
    case LevelCoding::bitpacked:
      pack_out_of_line_chunk<uint16_t>(levels, n, encoding.bits, out);
      return;
    case LevelCoding::runs: {
      size_t runs = count_runs<uint16_t>(levels, n);
      store<uint64_t>(out, 2 * runs);
      write_runs<uint16_t>(levels, n, out + 8, out + 8 + 2 * runs);
      return;
    }
    default:
      corrupt("levels are not written in this coding");
  }
}

}  // namespace lance
