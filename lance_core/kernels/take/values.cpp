#include "take/values.hpp"

#include <numeric>

#include "base/bits.hpp"
#include "base/variable.hpp"
#include "take/cell_decoding.hpp"

namespace lance {
namespace {

unsigned offset_bits_of(const MiniBlocks& page) {
  if (page.items) {
    return page.items->offset_bits;
  }
  return page.coding == ValueCoding::variable || page.coding == ValueCoding::fsst ? page.bits : 0;
}

// Copies byte-stream-split values of `width` bytes to `out + k * width`.
void pick_streams(const ChunkCells& column, const Members& members, size_t width, uint8_t* out) {
  column.copy_each(column.values, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
    if (cell.count > cell.bytes / width) {
      corrupt("%zu split values of %zu bytes in %zu bytes", cell.count, width, cell.bytes);
    }
    for (size_t byte = 0; byte < width; ++byte) {
      copies.push_back({cell.data + byte * cell.count + cell.index, 1, out + k * width + byte});
    }
  });
}

Block take_bits(const ChunkCells& column) {
  std::vector<uint8_t> bytes(column.cells.size());
  Members all(column.cells.size());
  std::iota(all.begin(), all.end(), size_t{0});
  column.copy_each(column.values, all, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
    if (column.cells[k].page->coding != ValueCoding::flat || ceil8(cell.count) > cell.bytes) {
      corrupt("%zu bits in %zu bytes", cell.count, cell.bytes);
    }
    copies.push_back({cell.data + cell.index / 8, 1, &bytes[k]});
  });
  Block out(ceil8(column.cells.size()));
  BitWriter writer(out.data());
  for (size_t k = 0; k < column.cells.size(); ++k) {
    writer.append((bytes[k] >> (column.values[k].index % 8)) & 1);
  }
  return out;
}

// Decodes words of `width` bytes of the pages that `accept` accepts.
template <class Accept>
void take_words(const ChunkCells& column, size_t width, Accept accept, uint8_t* out) {
  auto has = [&](ValueCoding coding) {
    return column.members(
        [&](const MiniBlocks& page) { return page.coding == coding && page.bits == 8 * width && accept(page); });
  };
  if (Members flat = has(ValueCoding::flat); !flat.empty()) {
    pick_fixed(column, column.values, flat, width, out);
  }
  if (Members streams = has(ValueCoding::byte_streams); !streams.empty()) {
    pick_streams(column, streams, width, out);
  }
  if (Members packed = has(ValueCoding::bitpacked_inline); !packed.empty()) {
    switch (width) {
      case 1:
        return pick_inline(column, column.values, packed, out);
      case 2:
        return pick_inline(column, column.values, packed, reinterpret_cast<uint16_t*>(out));
      case 4:
        return pick_inline(column, column.values, packed, reinterpret_cast<uint32_t*>(out));
      case 8:
        return pick_inline(column, column.values, packed, reinterpret_cast<uint64_t*>(out));
      default:
        corrupt("bit packing of words of %zu bytes", width);
    }
  }
}

// Calls `use(k, items, index)` for each value that is the index of an item.
template <class Use>
void each_index(const ChunkCells& column, Use use) {
  for (size_t width : {1, 2, 4, 8}) {
    auto accept = [&](const MiniBlocks& page) { return page.items && page.bits == 8 * width; };
    Members chosen = column.members(accept);
    if (chosen.empty()) {
      continue;
    }
    std::vector<uint8_t> indices(column.cells.size() * width);
    take_words(column, width, accept, indices.data());
    for (size_t k : chosen) {
      uint64_t index = 0;
      std::memcpy(&index, indices.data() + k * width, width);  // supported hosts are little-endian
      const Items& items = *column.cells[k].page->items;
      if (index >= items.count) {
        corrupt("dictionary index %llu of %zu items", static_cast<unsigned long long>(index), items.count);
      }
      use(k, items, index);
    }
  }
}

Block take_fixed(const ChunkCells& column, unsigned bits) {
  if (bits < 8 || bits % 8 != 0) {
    corrupt("values of %u bits", bits);
  }
  size_t width = bits / 8;
  Block out(column.cells.size() * width);
  take_words(column, width, [](const MiniBlocks& page) { return !page.items; }, out.data());
  each_index(column, [&](size_t k, const Items& items, size_t index) {
    std::memcpy(out.data() + k * width, items.data.data + index * width, width);
  });
  return out;
}

// Finds the stored bytes of values: `stored[k]` points into `staged` or into a dictionary.
template <class T>
void stage_values(const ChunkCells& column, std::vector<Bytes>& stored, std::vector<uint8_t>& staged) {
  Members chosen = column.members([](const MiniBlocks& page) { return !page.items; });
  std::vector<T> edges(2 * column.cells.size());
  column.copy_each(column.values, chosen, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
    if (cell.bytes / sizeof(T) < cell.count + 1) {
      corrupt("%zu bytes for %zu offsets", cell.bytes, cell.count + 1);
    }
    copies.push_back({cell.data + cell.index * sizeof(T), 2 * sizeof(T), reinterpret_cast<uint8_t*>(&edges[2 * k])});
  });
  size_t total = 0;
  for (size_t k : chosen) {
    const Cell& cell = column.values[k];
    T begin = edges[2 * k], end = edges[2 * k + 1];
    if (begin < (cell.count + 1) * sizeof(T) || end < begin || end > cell.bytes) {
      corrupt("a chunk of %zu bytes holds a value at [%llu, %llu)", cell.bytes, static_cast<unsigned long long>(begin),
              static_cast<unsigned long long>(end));
    }
    total += end - begin;
  }
  staged.resize(total);
  uint8_t* to = staged.data();
  column.copy_each(column.values, chosen, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
    stored[k] = {to, static_cast<size_t>(edges[2 * k + 1] - edges[2 * k])};
    if (stored[k].size != 0) {
      copies.push_back({cell.data + edges[2 * k], stored[k].size, to});
    }
    to += stored[k].size;
  });
}

// Looks up the items of values that are indices of texts.
void look_up(const ChunkCells& column, std::vector<Bytes>& stored) {
  each_index(column, [&](size_t k, const Items& items, size_t index) {
    if (index + 1 >= items.offsets.size / offset_bytes(items.offset_bits)) {
      corrupt("dictionary index %zu in %zu bytes of offsets", index, items.offsets.size);
    }
    OffsetReader offsets(items.offsets.data, items.offset_bits);
    size_t begin = offsets[index], end = offsets[index + 1];
    if (end < begin) {
      corrupt("dictionary item %zu at [%zu, %zu)", index, begin, end);
    }
    stored[k] = items.data.slice(begin, end - begin);
  });
}

void take_variable(const ChunkCells& column, unsigned offset_bits, DecodedRows& result) {
  size_t n = column.cells.size();
  std::vector<Bytes> stored(n);
  std::vector<uint8_t> staged;
  if (offset_bytes(offset_bits) == 4) {
    stage_values<uint32_t>(column, stored, staged);
  } else {
    stage_values<uint64_t>(column, stored, staged);
  }
  look_up(column, stored);
  auto symbols = [&](size_t k) {
    const MiniBlocks& page = *column.cells[k].page;
    bool coded = page.coding == ValueCoding::fsst && !page.items && page.symbols->codes;
    return coded ? page.symbols : nullptr;
  };
  std::vector<size_t> ends(n + 1);
  for (size_t k = 0; k < n; ++k) {
    const SymbolTable* table = symbols(k);
    size_t bytes = table == nullptr ? stored[k].size : expanded_size(*table, stored[k]);
    if (bytes == SIZE_MAX) {
      corrupt("a value ends inside an escape, or has a code with nothing behind it");
    }
    ends[k + 1] = ends[k] + bytes;
  }
  if (offset_bits == 32 && ends[n] > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  Block data(ends[n] + kSlack);
  result.values = offsets_of(ends, offset_bits);
  for (size_t k = 0; k < n; ++k) {
    uint8_t* to = data.data() + ends[k];
    if (const SymbolTable* table = symbols(k); table != nullptr) {
      expand_value(*table, stored[k], to);  // the next value overwrites the bytes after this one
    } else {
      copy_bytes(to, stored[k].data, stored[k].size);
    }
  }
  data.resize(ends[n]);
  result.data = std::move(data);
}

}  // namespace

void take_values(const ChunkCells& column, const MiniBlocks& page, DecodedRows& result) {
  unsigned offset_bits = offset_bits_of(page);
  for (const ChunkCell& cell : column.cells) {
    if (offset_bits_of(*cell.page) != offset_bits ||
        (offset_bits == 0 && cell.page->value_bits() != page.value_bits())) {
      corrupt("pages of different types in a column");
    }
  }
  if (offset_bits != 0) {
    take_variable(column, offset_bits, result);
  } else {
    result.values = page.value_bits() == 1 ? take_bits(column) : take_fixed(column, page.value_bits());
  }
}

}  // namespace lance
