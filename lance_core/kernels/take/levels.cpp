#include "take/levels.hpp"

#include <algorithm>

#include "base/bits.hpp"
#include "base/variable.hpp"
#include "take/cell_decoding.hpp"

namespace lance {
namespace {

// Bound of the memory, if the lists are longer than the mean.
constexpr size_t kMostItems = size_t{1} << 16;

// The decoded levels of a chunk.
struct ChunkLevels {
  Block rep{0};
  Block def{0};
};

// Decodes levels of out-of-line bit packing to `out[k]`.
void pick_packed_levels(const ChunkCells& column, const Members& members, unsigned bits, uint16_t* out) {
  PackedWords<uint16_t> words(column.levels.size());
  column.copy_each(column.levels, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
    auto shape = OutOfLineShape<uint16_t>::of(cell.bytes, cell.count, bits, k);
    size_t group = cell.index / kGroup, place = cell.index % kGroup;
    const uint8_t* packed = cell.data + group * packed_bytes(bits);
    if (group == shape.full && shape.is_raw) {
      words.add_word(k, packed + place * sizeof(uint16_t), copies);
    } else {
      words.add(k, packed, bits, place, copies);
    }
  });
  for (size_t k : members) {
    out[k] = words.value(k);
  }
}

// Calls `use(k, levels)` with all decoded levels of the chunk of each of `members`. `encoding_of(page)` is their
// encoding.
template <class EncodingOf, class Use>
void decode_each(const ChunkCells& column, const std::vector<Cell>& cells, const Members& members,
                 EncodingOf encoding_of, Use use) {
  std::vector<size_t> begins(cells.size());
  size_t total = 0;
  for (size_t k : members) {
    begins[k] = total;
    total += cells[k].bytes;
  }
  std::vector<uint8_t> bytes(total);
  column.copy_each(cells, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
    copies.push_back({cell.data, cell.bytes, bytes.data() + begins[k]});
  });
  for (size_t k : members) {
    Stream stream;
    stream.base = {bytes.data(), total};
    stream.append(begins[k], cells[k].bytes);
    use(k, decode_levels(stream, Counts({static_cast<int64_t>(cells[k].count)}), encoding_of(*column.cells[k].page)));
  }
}

// Decodes levels in runs to `out[k]`. A level is known only after all levels before it.
void pick_runs(const ChunkCells& column, const Members& members, uint16_t* out) {
  decode_each(
      column, column.levels, members, [](const MiniBlocks& page) { return page.def; },
      [&](size_t k, const Block& levels) { out[k] = load<uint16_t>(levels.data() + 2 * column.levels[k].index); });
}

std::vector<ChunkLevels> decode_chunk_levels(const ChunkCells& column) {
  std::vector<ChunkLevels> levels(column.cells.size());
  decode_each(
      column, column.reps, column.members([](const MiniBlocks&) { return true; }),
      [](const MiniBlocks& page) { return page.lists->rep; },
      [&](size_t k, Block rep) { levels[k].rep = std::move(rep); });
  decode_each(
      column, column.levels, column.members([](const MiniBlocks& page) { return page.shape.has_def; }),
      [](const MiniBlocks& page) { return page.def; }, [&](size_t k, Block def) { levels[k].def = std::move(def); });
  return levels;
}

// Returns the levels of the chunks of a list, one after the other; in `memory` if there are several chunks.
Bytes joined(const ChunkCells& column, const ListRow& list, const std::vector<ChunkLevels>& levels,
             Block ChunkLevels::* kind, Block& memory) {
  size_t total = 0;
  for (size_t i = list.first; i < list.last; ++i) {
    total += (levels[column.chunks[i]].*kind).size();
  }
  if (list.last - list.first == 1) {
    return {(levels[column.chunks[list.first]].*kind).data(), total};
  }
  memory = Block(total);
  uint8_t* to = memory.data();
  for (size_t i = list.first; i < list.last; ++i) {
    const Block& part = levels[column.chunks[i]].*kind;
    copy_bytes(to, part.data(), part.size());
    to += part.size();
  }
  return {memory.data(), total};
}

// Returns whether both lists lie in one chunk only, which is the same, and `list` is behind `before`.
bool is_behind(const ChunkCells& column, const ListRow& before, const ListRow& list) {
  return list.page == before.page && list.last - list.first == 1 && before.last - before.first == 1 &&
         column.chunks[list.first] == column.chunks[before.first] && list.skip > before.skip;
}

}  // namespace

void take_lists(ChunkCells& column, unsigned offset_bits, DecodedRows& result) {
  std::vector<ChunkLevels> levels = decode_chunk_levels(column);
  std::vector<size_t> ends{0};
  std::vector<bool> valid_lists, valid_items;
  std::vector<ChunkCell> items;
  std::vector<Cell> values;
  const ListRow* last = nullptr;
  RowRange found;
  for (const ListRow& list : column.lists) {
    if (list.page == nullptr || list.page->lists->offset_bits != offset_bits) {
      corrupt("lists of different types in a column, or none");
    }
    Block rep(0), def(0);
    size_t num_values = 0;
    for (size_t i = list.first; i < list.last; ++i) {
      num_values += column.values[column.chunks[i]].count;
    }
    Bytes reps = joined(column, list, levels, &ChunkLevels::rep, rep),
          defs = joined(column, list, levels, &ChunkLevels::def, def);
    const ListShape& shape = *list.page->lists;
    found = last != nullptr && is_behind(column, *last, list)
                ? find_rows_behind(reps, defs, 1, shape.max_visible, found, list.skip - last->skip - 1, 1)
                : find_rows(reps, defs, 1, shape.max_visible, list.skip, 1);
    last = &list;
    if (found.num_values != num_values) {
      corrupt("levels describe %zu values where there are %zu", found.num_values, num_values);
    }
    size_t num_entries = found.entry_end - found.entry_begin, num_items = found.value_end - found.value_begin;
    defs = defs.size == 0 ? defs : defs.slice(2 * found.entry_begin, 2 * num_entries);
    uint16_t first = defs.size == 0 ? 0 : load<uint16_t>(defs.data);
    bool is_missing = num_entries == 1 && num_items == 0;
    if (is_missing ? first != shape.levels.null && first != shape.levels.empty : num_items != num_entries) {
      corrupt("a list of %zu items in %zu entries, the first of level %u", num_items, num_entries, first);
    }
    if (items.size() + num_items > kMostItems) {
      corrupt("more than %zu items", kMostItems);
    }
    for (size_t i = 0; i < num_items; ++i) {
      valid_items.push_back(defs.size == 0 || load<uint16_t>(defs.data + 2 * i) == 0);
    }
    size_t begin = 0;  // number of the first value of a chunk among the values of all chunks of the list
    for (size_t i = list.first; i < list.last; ++i) {
      size_t chunk = column.chunks[i], end = begin + column.values[chunk].count;
      for (size_t v = std::max(begin, found.value_begin); v < std::min(end, found.value_end); ++v) {
        items.push_back(column.cells[chunk]);
        values.push_back(column.values[chunk]);
        values.back().index = v - begin;
      }
      begin = end;
    }
    ends.push_back(items.size());
    valid_lists.push_back(!is_missing || first != shape.levels.null);
  }
  column.cells = std::move(items);
  column.values = std::move(values);
  result.validity = validity_of(valid_items.size(), [&](size_t k) { return valid_items[k]; });
  result.list_validity = validity_of(valid_lists.size(), [&](size_t k) { return valid_lists[k]; });
  result.list_offsets = offsets_of(ends, offset_bits);
}

std::optional<Block> take_validity(const ChunkCells& column) {
  auto nullable = [](const MiniBlocks& page) { return page.shape.has_def && page.has_nulls; };
  std::vector<uint16_t> levels(column.cells.size());
  auto coded = [&](LevelCoding coding) {
    return column.members([&](const MiniBlocks& page) { return nullable(page) && page.def.coding == coding; });
  };
  if (Members flat = coded(LevelCoding::flat); !flat.empty()) {
    pick_fixed(column, column.levels, flat, 2, reinterpret_cast<uint8_t*>(levels.data()));
  }
  if (Members packed = coded(LevelCoding::bitpacked_inline); !packed.empty()) {
    pick_inline(column, column.levels, packed, levels.data());
  }
  uint64_t widths = 0;
  for (size_t k : coded(LevelCoding::bitpacked)) {
    widths |= uint64_t{1} << std::min(column.cells[k].page->def.bits, 63u);
  }
  for (unsigned bits = 0; widths >> bits != 0; ++bits) {
    pick_packed_levels(column, column.members([&](const MiniBlocks& page) {
      return nullable(page) && page.def.coding == LevelCoding::bitpacked && page.def.bits == bits;
    }),
                       bits, levels.data());
  }
  if (Members runs = coded(LevelCoding::runs); !runs.empty()) {
    pick_runs(column, runs, levels.data());
  }
  std::vector<bool> valid(column.cells.size());
  for (size_t k = 0; k < column.cells.size(); ++k) {
    if (levels[k] > column.cells[k].page->max_def) {
      corrupt("definition level %u where %u is the highest", levels[k], column.cells[k].page->max_def);
    }
    valid[k] = levels[k] == 0;
  }
  return validity_of(valid.size(), [&](size_t k) { return valid[k]; });
}

}  // namespace lance
