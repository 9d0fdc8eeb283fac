#include "pages/levels.hpp"

#include <algorithm>

#include "base/bits.hpp"
#include "codecs/bitpacking.hpp"
#include "codecs/runs.hpp"
#include "pages/level_masks.hpp"

namespace lance {
namespace {

void decode_chunk(Bytes chunk, size_t n, LevelEncoding encoding, uint16_t* out, size_t index) {
  switch (encoding.coding) {
    case LevelCoding::flat:
      if (chunk.size / 2 < n) {
        corrupt("chunk %zu has %zu bytes for %zu levels", index, chunk.size, n);
      }
      copy_bytes(out, chunk.data, n * 2);
      return;
    case LevelCoding::bitpacked_inline:
      unpack_inline_chunk(chunk, n, out, index);
      return;
    case LevelCoding::bitpacked:
      unpack_out_of_line_chunk(chunk, n, encoding.bits, out, index);
      return;
    case LevelCoding::runs: {
      Bytes values, lengths;
      split_runs_chunk(chunk, n, values, lengths, index);
      expand_runs_chunk(values, lengths, n, out, index);
      return;
    }
  }
}

// Returns a bound on the number of levels in a chunk, so that a wrong number is refused before memory is allocated.
size_t most_levels(size_t bytes, LevelEncoding encoding) {
  switch (encoding.coding) {
    case LevelCoding::flat:
      return bytes / 2;
    case LevelCoding::bitpacked_inline:
      return kGroup;
    case LevelCoding::bitpacked:
      return encoding.bits != 0 ? bytes * 8 / encoding.bits : SIZE_MAX;
    case LevelCoding::runs:
      return bytes / 3 * 255;
  }
  return 0;
}

uint16_t highest_level(const uint8_t* levels, size_t n) {
  uint16_t highest = 0;
  size_t i = 0;
#if defined(__SSE2__)
  __m128i top = _mm_setzero_si128();
  for (; i + 8 <= n; i += 8) {
    __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(levels + 2 * i));
    // Maximum of both: the highest plus the amount by which a level exceeds it.
    top = _mm_add_epi16(top, _mm_subs_epu16(eight, top));
  }
  uint16_t tops[8];
  std::memcpy(tops, &top, sizeof tops);
  highest = *std::max_element(tops, tops + 8);
#endif
  for (; i < n; ++i) {
    auto level = load<uint16_t>(levels + 2 * i);
    highest = level > highest ? level : highest;
  }
  return highest;
}

void require_at_most(const uint8_t* levels, size_t n, uint16_t limit) {
  uint16_t highest = highest_level(levels, n);
  if (highest > limit) {
    corrupt("definition level %u where %u is the highest", highest, limit);
  }
}

size_t check_counts(const Stream& stream, const Counts& counts, LevelEncoding encoding) {
  require_same_chunks(stream, counts);
  if (encoding.coding == LevelCoding::bitpacked && encoding.bits > 15) {
    corrupt("levels packed in %u bits", encoding.bits);
  }
  size_t largest = 0;
  for (size_t i = 0; i < stream.size(); ++i) {
    if (static_cast<size_t>(counts.values[i]) > most_levels(static_cast<size_t>(stream.length[i]), encoding)) {
      corrupt("chunk %zu has %lld bytes for %lld levels", i, static_cast<long long>(stream.length[i]),
              static_cast<long long>(counts.values[i]));
    }
    largest = std::max(largest, static_cast<size_t>(counts.values[i]));
  }
  return largest;
}

}  // namespace

Block decode_levels(const Stream& stream, const Counts& counts, LevelEncoding encoding) {
  check_counts(stream, counts, encoding);
  Block out(static_cast<size_t>(counts.total) * 2);
  auto* to = reinterpret_cast<uint16_t*>(out.data());
  for (size_t i = 0; i < stream.size(); ++i) {
    auto n = static_cast<size_t>(counts.values[i]);
    decode_chunk(stream.chunk(i), n, encoding, to, i);
    to += n;
  }
  return out;
}

Bitmap decode_validity(const Stream& stream, const Counts& counts, LevelEncoding encoding, uint16_t limit,
                       uint16_t highest) {
  size_t largest = check_counts(stream, counts, encoding);
  Bitmap result;
  result.length = static_cast<size_t>(counts.total);
  result.bits = Block(ceil8(result.length));
  std::vector<uint16_t> scratch(largest);
  BitWriter writer(result.bits.data());
  size_t valid = 0;
  for (size_t i = 0; i < stream.size(); ++i) {
    auto n = static_cast<size_t>(counts.values[i]);
    decode_chunk(stream.chunk(i), n, encoding, scratch.data(), i);
    auto* levels = reinterpret_cast<const uint8_t*>(scratch.data());
    require_at_most(levels, n, highest);
    valid += writer.append_at_most(levels, n, limit);
  }
  result.num_nulls = result.length - valid;
  return result;
}

namespace {

// Finds the start of row `skip_rows` and of the row `num_rows` later. Counts all values, or stops at the latter.
LANCE_MULTIVERSION void scan_rows(const uint8_t* rep, const uint8_t* def, size_t n, uint16_t max_rep,
                                  uint16_t max_visible, size_t skip_rows, size_t num_rows, bool counts_all,
                                  RowRange& range) {
  size_t last = skip_rows + num_rows;
  size_t rows = 0;
  size_t values = 0;
  bool begun = false;
  bool ended = false;
  for (size_t i = 0; i < n && (counts_all || !ended); i += kWord) {
    size_t width = std::min(kWord, n - i);
    uint64_t starts = low_bits(width) & ~at_most(rep + 2 * i, width, static_cast<uint16_t>(max_rep - 1));
    uint64_t visible = def == nullptr ? low_bits(width) : at_most(def + 2 * i, width, max_visible);
    size_t rows_after = rows + count_bits(starts);
    if (!begun && rows_after > skip_rows) {
      size_t bit = select_bit(starts, skip_rows - rows);
      range.entry_begin = i + bit;
      range.value_begin = values + count_bits(visible & low_bits(bit));
      begun = true;
    }
    if (!ended && rows_after > last) {
      size_t bit = select_bit(starts, last - rows);
      range.entry_end = i + bit;
      range.value_end = values + count_bits(visible & low_bits(bit));
      ended = true;
    }
    rows = rows_after;
    values += count_bits(visible);
  }
  if (rows < last) {
    corrupt("levels hold %zu rows where %zu are needed", rows, last);
  }
  range.value_begin = begun ? range.value_begin : values;
  range.value_end = ended ? range.value_end : values;
  range.num_values = values;
}

RowRange find_among(Bytes rep, Bytes def, uint16_t max_rep, uint16_t max_visible, size_t skip_rows, size_t num_rows,
                    bool counts_all) {
  size_t n = rep.size / 2;
  bool has_def = def.size != 0;
  if (has_def && def.size != rep.size) {
    corrupt("%zu definition levels for %zu repetition levels", def.size / 2, n);
  }
  if (num_rows > n || skip_rows > n) {
    corrupt("%zu levels for %zu rows behind %zu others", n, num_rows, skip_rows);
  }
  RowRange range;
  range.entry_begin = range.entry_end = n;
  scan_rows(rep.data, has_def ? def.data : nullptr, n, max_rep, max_visible, skip_rows, num_rows, counts_all, range);
  return range;
}

}  // namespace

RowRange find_rows(Bytes rep, Bytes def, uint16_t max_rep, uint16_t max_visible, size_t skip_rows, size_t num_rows) {
  return find_among(rep, def, max_rep, max_visible, skip_rows, num_rows, true);
}

RowRange find_rows_behind(Bytes rep, Bytes def, uint16_t max_rep, uint16_t max_visible, const RowRange& before,
                          size_t skip_rows, size_t num_rows) {
  size_t entry = before.entry_end, value = before.value_end;
  rep = rep.slice(2 * entry, rep.size - 2 * entry);
  def = def.size == 0 ? def : def.slice(2 * entry, def.size - 2 * entry);
  RowRange found = find_among(rep, def, max_rep, max_visible, skip_rows, num_rows, false);
  return {found.entry_begin + entry, found.entry_end + entry, found.value_begin + value, found.value_end + value,
          before.num_values};
}

namespace {

// Appends one bit per level that is at most `top`, set if the level is at most `limit`. Returns the number of set bits.
LANCE_MULTIVERSION size_t append_here(const uint8_t* levels, size_t n, uint16_t top, uint16_t limit,
                                      BitWriter& writer) {
  size_t set = 0;
  for (size_t i = 0; i < n; i += kWord) {
    size_t width = std::min(kWord, n - i);
    uint64_t here = at_most(levels + 2 * i, width, top);
    uint64_t valid = at_most(levels + 2 * i, width, limit) & here;
    set += count_bits(valid);
    if (here == low_bits(width)) {
      writer.append_word(valid, width);
      continue;
    }
    uint64_t packed = 0;
    size_t slots = 0;
    for (; here != 0; here &= here - 1) {
      packed |= ((valid >> __builtin_ctzll(here)) & 1) << slots++;
    }
    writer.append_word(packed, slots);
  }
  return set;
}

}  // namespace

Bitmap item_validity(Bytes def, Bytes depth_of, size_t depth, uint16_t limit) {
  if (depth_of.size == 0 || depth_of.size > (size_t{1} << 16)) {
    corrupt("%zu definition levels", depth_of.size);
  }
  size_t n = def.size / 2;
  Bitmap result;
  result.bits = Block(ceil8(n));
  BitWriter writer(result.bits.data());
  // Depths only grow with levels, so the levels with a slot here are all levels up to a limit.
  if (!std::is_sorted(depth_of.data, depth_of.data + depth_of.size) || depth_of.data[0] > depth) {
    corrupt("definition levels whose depth does not grow");
  }
  const uint8_t* end = std::upper_bound(depth_of.data, depth_of.data + depth_of.size, depth);
  auto top = static_cast<uint16_t>(end - depth_of.data - 1);
  require_at_most(def.data, n, static_cast<uint16_t>(depth_of.size - 1));
  size_t valid = top + size_t{1} == depth_of.size ? writer.append_at_most(def.data, n, limit)
                                                  : append_here(def.data, n, top, limit, writer);
  result.length = writer.position();
  result.bits.resize(ceil8(result.length));
  result.num_nulls = result.length - valid;
  return result;
}

namespace {

// Unravels one list layer, 64 entries at a time. `result` gets the requested offsets, levels and bits.
template <class Offset>
inline __attribute__((always_inline)) void unravel_lists(Bytes rep, Bytes def, const ListLevels& levels,
                                                         bool with_levels, ListLayer& result) {
  const size_t n = rep.size / 2;
  const bool has_def = def.size != 0;
  // Levels up to this one are inside the lists. Levels above it are null or empty lists.
  int item_top = levels.upper;
  for (int missing : {levels.null, levels.empty}) {
    item_top = missing >= 0 ? std::min(item_top, missing - 1) : item_top;
  }
  const auto inside = static_cast<uint16_t>(item_top);
  const auto upper = static_cast<uint16_t>(levels.upper);
  const auto shown = static_cast<uint16_t>(levels.shown);
  auto* offsets = reinterpret_cast<Offset*>(result.offsets.data());
  auto* next_rep = reinterpret_cast<uint16_t*>(result.rep.data());
  auto* next_def = reinterpret_cast<uint16_t*>(result.def.data());
  BitWriter validity(result.validity.data());
  size_t children = 0;
  size_t lists = 0;
  for (size_t i = 0; i < n; i += kWord) {
    size_t width = std::min(kWord, n - i);
    const uint64_t all = low_bits(width);
    const uint8_t* r = rep.data + 2 * i;
    const uint8_t* d = def.data + 2 * i;
    uint64_t starts = all & ~at_most(r, width, 0);
    uint64_t slots = starts;
    uint64_t child = all;
    uint64_t null = 0;
    if (has_def) {
      child = at_most(d, width, inside);
      if (child != all) {
        uint64_t lost = all & ~(starts | child);
        if (lost != 0) {
          size_t entry = i + static_cast<size_t>(__builtin_ctzll(lost));
          corrupt("entry %zu continues a list but is a list without items (definition level %u)", entry,
                  load<uint16_t>(def.data + 2 * entry));
        }
        slots &= at_most(d, width, shown);
        null = slots & ~at_most(d, width, upper);
        if (levels.null >= 0) {
          auto level = static_cast<uint16_t>(levels.null);
          null |= slots & at_most(d, width, level) & ~at_most(d, width, static_cast<uint16_t>(level - 1));
        }
      }
    }
    if (child == all) {
      for (uint64_t left = slots; left != 0; left &= left - 1) {
        offsets[lists++] = static_cast<Offset>(children + static_cast<size_t>(__builtin_ctzll(left)));
      }
    } else {
      for (uint64_t left = slots; left != 0; left &= left - 1) {
        uint64_t below = (left & -left) - 1;
        offsets[lists++] = static_cast<Offset>(children + count_bits(child & below));
      }
    }
    children += count_bits(child);
    if (has_def) {
      uint64_t bits = low_bits(count_bits(slots));
      if (null != 0) {
        size_t slot = 0;
        for (uint64_t left = slots; left != 0; left &= left - 1) {
          bits &= ~(static_cast<uint64_t>((null & left & -left) != 0) << slot++);
        }
      }
      validity.append_word(bits, count_bits(slots));
      result.num_nulls += count_bits(null);
    }
    if (with_levels) {
      for (uint64_t left = starts; left != 0; left &= left - 1) {
        size_t entry = static_cast<size_t>(__builtin_ctzll(left));
        *next_rep++ = static_cast<uint16_t>(load<uint16_t>(r + 2 * entry) - 1);
        if (has_def) {
          *next_def++ = load<uint16_t>(d + 2 * entry);
        }
      }
    }
  }
  offsets[lists] = static_cast<Offset>(children);
  result.length = lists;
  result.num_children = children;
  result.validity.resize(ceil8(validity.position()));
}

LANCE_MULTIVERSION void unravel_lists_32(Bytes rep, Bytes def, const ListLevels& levels, bool with_levels,
                                         ListLayer& result) {
  unravel_lists<int32_t>(rep, def, levels, with_levels, result);
}

LANCE_MULTIVERSION void unravel_lists_64(Bytes rep, Bytes def, const ListLevels& levels, bool with_levels,
                                         ListLayer& result) {
  unravel_lists<int64_t>(rep, def, levels, with_levels, result);
}

LANCE_MULTIVERSION size_t count_starts(const uint8_t* rep, size_t n) {
  size_t starts = 0;
  for (size_t i = 0; i < n; i += kWord) {
    size_t width = std::min(kWord, n - i);
    starts += width - count_bits(at_most(rep + 2 * i, width, 0));
  }
  return starts;
}

}  // namespace

ListLayer list_layer(Bytes rep, Bytes def, ListLevels levels, unsigned offset_bits, bool with_levels) {
  size_t n = rep.size / 2;
  bool has_def = def.size != 0;
  if (has_def && def.size != rep.size) {
    corrupt("%zu definition levels for %zu repetition levels", def.size / 2, n);
  }
  if (n != 0 && load<uint16_t>(rep.data) == 0) {
    corrupt("the first entry continues a list that has not begun");
  }
  uint16_t highest = highest_level(rep.data, n);
  if (highest > levels.max_rep) {
    corrupt("repetition level %u where %d is the highest", highest, levels.max_rep);
  }
  if (offset_bits == 32 && n > INT32_MAX) {
    throw OffsetOverflow("more list items than 32-bit offsets can address");
  }
  size_t num_starts = count_starts(rep.data, n);
  size_t offset_bytes = offset_bits / 8;
  ListLayer result;
  result.offsets = Block((num_starts + 1) * offset_bytes);
  result.validity = Block(has_def ? ceil8(num_starts) : 0);
  result.rep = Block(with_levels ? num_starts * 2 : 0);
  result.def = Block(with_levels && has_def ? num_starts * 2 : 0);
  (offset_bits == 32 ? unravel_lists_32 : unravel_lists_64)(rep, def, levels, with_levels, result);
  result.offsets.resize((result.length + 1) * offset_bytes);
  return result;
}

}  // namespace lance
