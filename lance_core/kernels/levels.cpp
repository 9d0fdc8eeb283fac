#include "levels.hpp"

#include <algorithm>

#include "bitpacking.hpp"
#include "bits.hpp"
#include "runs.hpp"

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

// Upper bound of the levels in a chunk, so that no claim becomes an allocation that the bytes do not back.
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
    // What a level exceeds the highest by, added to the highest: their maximum.
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

RowRange find_rows(Bytes rep, Bytes def, uint16_t max_rep, uint16_t max_visible, size_t skip_rows, size_t num_rows) {
  size_t n = rep.size / 2;
  bool has_def = def.size != 0;
  if (has_def && def.size != rep.size) {
    corrupt("%zu definition levels for %zu repetition levels", def.size / 2, n);
  }
  if (num_rows > n || skip_rows > n) {
    corrupt("%zu levels for %zu rows behind %zu others", n, num_rows, skip_rows);
  }
  RowRange range;
  size_t rows = 0;
  size_t values = 0;
  size_t i = 0;
  // Position of the start of row number `target`, counting row starts from 0; n if there are fewer.
  auto advance = [&](size_t target) {
    for (; i < n; ++i) {
      if (load<uint16_t>(rep.data + 2 * i) == max_rep) {
        if (rows == target) {
          return;
        }
        ++rows;
      }
      values += !has_def || load<uint16_t>(def.data + 2 * i) <= max_visible;
    }
  };
  advance(skip_rows);
  range.entry_begin = i;
  range.value_begin = values;
  advance(skip_rows + num_rows);
  range.entry_end = i;
  range.value_end = values;
  if (rows != skip_rows + num_rows) {
    corrupt("levels hold %zu rows where %zu are needed", rows, skip_rows + num_rows);
  }
  advance(SIZE_MAX);
  range.num_values = values;
  return range;
}

Bitmap item_validity(Bytes def, Bytes depth_of, size_t depth, uint16_t limit) {
  if (depth_of.size == 0 || depth_of.size > (size_t{1} << 16)) {
    corrupt("%zu definition levels", depth_of.size);
  }
  size_t n = def.size / 2;
  Bitmap result;
  result.bits = Block(ceil8(n));
  BitWriter writer(result.bits.data());
  size_t valid = 0;
  bool all_here = std::all_of(depth_of.data, depth_of.data + depth_of.size, [&](uint8_t d) { return d <= depth; });
  if (all_here) {
    require_at_most(def.data, n, static_cast<uint16_t>(depth_of.size - 1));
    valid = writer.append_at_most(def.data, n, limit);
  } else {
    for (size_t i = 0; i < n; ++i) {
      auto level = load<uint16_t>(def.data + 2 * i);
      if (level >= depth_of.size) {
        corrupt("definition level %u where %zu is the highest", level, depth_of.size - 1);
      }
      if (depth_of.data[level] <= depth) {
        writer.append(level <= limit);
        valid += level <= limit;
      }
    }
  }
  result.length = writer.position();
  result.bits.resize(ceil8(result.length));
  result.num_nulls = result.length - valid;
  return result;
}

namespace {

template <class Offset>
ListLayer list_layer_of(Bytes rep, Bytes def, ListLevels levels) {
  size_t n = rep.size / 2;
  bool has_def = def.size != 0;
  if (has_def && def.size != rep.size) {
    corrupt("%zu definition levels for %zu repetition levels", def.size / 2, n);
  }
  ListLayer result;
  size_t num_starts = 0;
  for (size_t i = 0; i < n; ++i) {
    num_starts += load<uint16_t>(rep.data + 2 * i) != 0;
  }
  result.offsets = Block((num_starts + 1) * sizeof(Offset));
  result.rep = Block(num_starts * 2);
  result.def = Block(has_def ? num_starts * 2 : 0);
  result.validity = Block(has_def ? ceil8(num_starts) : 0);
  auto* offsets = reinterpret_cast<Offset*>(result.offsets.data());
  auto* next_rep = reinterpret_cast<uint16_t*>(result.rep.data());
  auto* next_def = reinterpret_cast<uint16_t*>(result.def.data());
  BitWriter validity(result.validity.data());
  if (n != 0 && load<uint16_t>(rep.data) == 0) {
    corrupt("the first entry continues a list that has not begun");
  }
  if (sizeof(Offset) == 4 && n > INT32_MAX) {
    throw OffsetOverflow("more list items than 32-bit offsets can address");
  }
  size_t children = 0;
  size_t entries = 0;
  size_t lists = 0;
  for (size_t i = 0; i < n; ++i) {
    auto r = load<uint16_t>(rep.data + 2 * i);
    int d = has_def ? load<uint16_t>(def.data + 2 * i) : 0;
    if (r == 0) {
      if (d > levels.upper || d == levels.null || d == levels.empty) {
        corrupt("entry %zu continues a list but is a list without items (definition level %d)", i, d);
      }
      ++children;
      continue;
    }
    if (r > levels.max_rep) {
      corrupt("repetition level %u where %d is the highest", r, levels.max_rep);
    }
    next_rep[entries] = static_cast<uint16_t>(r - 1);
    if (has_def) {
      next_def[entries] = static_cast<uint16_t>(d);
    }
    ++entries;
    if (d > levels.shown) {
      continue;  // an outer list without items: no slot here
    }
    bool null = d == levels.null || d > levels.upper;
    offsets[lists++] = static_cast<Offset>(children);
    if (has_def) {
      validity.append(!null);
      result.num_nulls += null;
    }
    children += !(null || d == levels.empty);
  }
  offsets[lists] = static_cast<Offset>(children);
  result.length = lists;
  result.num_children = children;
  result.num_entries = entries;
  result.offsets.resize((lists + 1) * sizeof(Offset));
  result.validity.resize(ceil8(validity.position()));
  return result;
}

}  // namespace

ListLayer list_layer(Bytes rep, Bytes def, ListLevels levels, unsigned offset_bits) {
  return offset_bits == 32 ? list_layer_of<int32_t>(rep, def, levels) : list_layer_of<int64_t>(rep, def, levels);
}

}  // namespace lance
