#include "pages/miniblock.hpp"

#include <algorithm>
#include <utility>

#include "base/flat.hpp"
#include "codecs/bitpacking.hpp"
#include "codecs/byte_stream_split.hpp"
#include "codecs/runs.hpp"
#include "pages/gather.hpp"

namespace lance {
namespace {

// Calls `each(first, last)` for runs of chunks that are contiguous in the file.
template <class Each>
void walk_runs(const MiniBlocks& page, ChunkRange range, Each each) {
  for (size_t i = range.first; i < range.last;) {
    size_t first = i;
    for (int64_t end = page.position[i]; i < range.last && page.position[i] == end && page.length[i] != 0; ++i) {
      end += page.length[i];
    }
    if (i != first) {
      each(first, i);
    }
    while (i < range.last && page.length[i] == 0) {
      ++i;
    }
  }
}

// Returns the start of a run of chunks, and its size in bytes.
std::pair<size_t, size_t> run_bytes(const MiniBlocks& page, size_t first, size_t last) {
  int64_t begin = page.position[first];
  return {static_cast<size_t>(begin), static_cast<size_t>(page.position[last - 1] + page.length[last - 1] - begin)};
}

// Copies flat values directly from the map of the file to the result, because chunks store them in their final form.
// Sets values and validity. Returns false if the file is not mapped or was truncated.
bool copy_flat(const MiniBlocks& page, ChunkRange range, PieceReader& file, Block& scratch, DecodedRows& rows) {
  constexpr size_t kHeader = 8;
  size_t width = page.bits / 8;
  if (page.coding != ValueCoding::flat || page.bits % 8 != 0 || width == 0 || page.compressor != Compressor::none ||
      page.items || page.lists || page.shape.has_def) {
    return false;
  }
  const FileMap* map = nullptr;
  std::vector<uint64_t> headers(range.last - range.first);
  std::vector<Copy> copies;
  size_t total = 0;
  bool is_mapped = true;
  walk_runs(page, range, [&](size_t first, size_t last) {
    auto [offset, length] = run_bytes(page, first, last);
    map = is_mapped ? file.map_for_run(offset, length) : nullptr;
    is_mapped = map != nullptr;
    for (size_t i = first; is_mapped && i < last; ++i) {
      auto count = static_cast<size_t>(page.first_value[i + 1] - page.first_value[i]);
      auto bytes = static_cast<size_t>(page.length[i]);
      if (bytes < kHeader || count > (bytes - kHeader) / width) {
        corrupt("a chunk of %zu bytes for %zu values of %zu bytes", bytes, count, width);
      }
      copies.push_back({map->data() + page.position[i], kHeader, reinterpret_cast<uint8_t*>(&headers[copies.size()])});
      total += count * width;
    }
  });
  if (!is_mapped || map == nullptr) {
    return false;
  }
  GuardedCopies copier({map->range()});
  if (!copier.run(copies)) {
    return false;
  }
  copies.clear();
  rows.values = Block(total);
  uint8_t* to = rows.values.data();
  Stream levels;
  std::vector<int64_t> counts;
  size_t level_bytes = 0, number = 0;
  for (size_t i = range.first; i < range.last; ++i) {
    if (page.length[i] == 0) {
      continue;
    }
    auto* header = reinterpret_cast<const uint8_t*>(&headers[number++]);
    auto count = static_cast<size_t>(page.first_value[i + 1] - page.first_value[i]);
    auto length = static_cast<size_t>(page.length[i]);
    size_t of_levels = page.shape.has_def ? load<uint16_t>(header + 2) : 0;
    const uint8_t* size = header + (page.shape.has_def ? 4 : 2);
    size_t stored = page.shape.large ? load<uint32_t>(size) : load<uint16_t>(size);
    size_t begin = kHeader + up8(of_levels);
    if (stored < count * width || begin > length || stored > length - begin ||
        (page.shape.has_def && load<uint16_t>(header) != count)) {
      corrupt("a chunk of %zu bytes keeps %zu values in %zu bytes", length, count, stored);
    }
    const uint8_t* chunk = map->data() + page.position[i];
    copies.push_back({chunk + begin, count * width, to});
    to += count * width;
    levels.offset.push_back(static_cast<int64_t>(level_bytes));
    levels.length.push_back(static_cast<int64_t>(of_levels));
    counts.push_back(static_cast<int64_t>(count));
    level_bytes += of_levels;
  }
  bool is_nullable = page.has_nulls && page.shape.has_def;
  if (is_nullable) {
    if (scratch.size() < level_bytes) {
      scratch = Block(level_bytes);
    }
    levels.base = {scratch.data(), level_bytes};
    number = 0;
    for (size_t i = range.first; i < range.last; ++i) {
      if (page.length[i] != 0) {
        copies.push_back({map->data() + page.position[i] + kHeader, static_cast<size_t>(levels.length[number]),
                          scratch.data() + levels.offset[number]});
        ++number;
      }
    }
  }
  if (!copier.run(copies) || !file.is_whole()) {
    return false;
  }
  if (is_nullable) {
    Bitmap bitmap = decode_validity(levels, Counts(std::move(counts)), page.def, 0, page.max_def);
    if (bitmap.num_nulls != 0) {
      rows.validity = std::move(bitmap.bits);
    }
  }
  return true;
}

// The bytes of several chunks, one after the other.
struct Encoded {
  Bytes data;
  std::vector<int64_t> offsets;  // of each chunk, and the end of the last chunk
  Counts counts;
};

Encoded read_chunks(const MiniBlocks& page, ChunkRange range, PieceReader& file, Block& scratch) {
  Encoded encoded;
  encoded.offsets.push_back(0);
  std::vector<int64_t> counts;
  for (size_t i = range.first; i < range.last; ++i) {
    if (page.length[i] != 0) {
      encoded.offsets.push_back(encoded.offsets.back() + page.length[i]);
      counts.push_back(page.first_value[i + 1] - page.first_value[i]);
    }
  }
  encoded.counts = Counts(std::move(counts));
  auto total = static_cast<size_t>(encoded.offsets.back());
  if (scratch.size() < total) {
    scratch = Block(total);
  }
  uint8_t* to = scratch.data();
  walk_runs(page, range, [&](size_t first, size_t last) {
    auto [offset, length] = run_bytes(page, first, last);
    if (!file.read_run(offset, length, to)) {
      corrupt("%zu bytes at %zu could not be read", length, offset);
    }
    to += length;
  });
  encoded.data = {scratch.data(), total};
  return encoded;
}

void decode_values(const MiniBlocks& page, const std::vector<Stream>& buffers, const Counts& counts, Scratch& scratch,
                   DecodedRows& rows) {
  Stream stream = inflate(buffers[0], page.compressor, scratch.inflated);
  auto variable = [&](VariableValues values) {
    rows.values = std::move(values.offsets);
    rows.data = std::move(values.data);
  };
  switch (page.coding) {
    case ValueCoding::flat:
      rows.values = page.bits == 1 ? join_bits(stream, counts) : join_fixed(stream, counts, page.bits / 8);
      break;
    case ValueCoding::bitpacked_inline:
      rows.values = unpack_inline(stream, counts, page.bits);
      break;
    case ValueCoding::byte_streams:
      rows.values = join_byte_streams(stream, counts, page.bits / 8);
      break;
    case ValueCoding::runs:
      rows.values = expand_runs(stream, buffers[1], counts, page.bits);
      break;
    case ValueCoding::variable:
      variable(join_variable(stream, counts, page.bits));
      break;
    case ValueCoding::fsst:
      variable(expand_symbols(*page.symbols, stream, counts, page.bits));
      break;
  }
  if (page.items) {
    Block indices = std::move(rows.values);
    const Items& items = *page.items;
    Bytes numbers{indices.data(), indices.size()};
    auto count = static_cast<size_t>(counts.total);
    if (items.offset_bits == 0) {
      rows.values = gather_fixed(numbers, count, page.bits, items.data, items.item_bits / 8);
    } else {
      variable(gather_variable(numbers, count, page.bits, items.offsets, items.data, items.count, items.offset_bits));
    }
  }
}

// Decodes the wanted values of a page of lists, and the lists around them.
void decode_lists(const MiniBlocks& page, const Chunks& chunks, const Counts& counts, ChunkRange range, size_t start,
                  size_t end, DecodedRows& rows) {
  const ListShape& lists = *page.lists;
  Block rep_block = decode_levels(chunks.rep, chunks.num_levels, lists.rep);
  Bytes rep{rep_block.data(), rep_block.size()}, def;
  Block def_block(0);
  if (page.shape.has_def) {
    def_block = decode_levels(chunks.def, chunks.num_levels, page.def);
    def = {def_block.data(), def_block.size()};
  }
  rows.num_values = static_cast<size_t>(counts.total);
  if (start != 0 || end != page.num_rows) {
    size_t skip = start - static_cast<size_t>(lists.first_row[range.first]);
    RowRange found = find_rows(rep, def, 1, lists.max_visible, skip, end - start);
    if (found.num_values != rows.num_values) {
      corrupt("levels describe %zu values where there are %zu", found.num_values, rows.num_values);
    }
    size_t entries = found.entry_end - found.entry_begin;
    rep = rep.slice(2 * found.entry_begin, 2 * entries);
    if (page.shape.has_def) {
      def = def.slice(2 * found.entry_begin, 2 * entries);
    }
    rows.first_value = found.value_begin;
    rows.num_values = found.value_end - found.value_begin;
  }
  if (page.has_nulls && page.shape.has_def) {
    Bitmap bitmap = item_validity(def, {lists.depth_of.data(), lists.depth_of.size()}, 0, 0);
    if (bitmap.length != rows.num_values) {
      corrupt("levels describe %zu values where there are %zu", bitmap.length, rows.num_values);
    }
    if (bitmap.num_nulls != 0) {
      rows.validity = std::move(bitmap.bits);
    }
  }
  ListLayer layer = list_layer(rep, def, lists.levels, lists.offset_bits, false);
  if (layer.num_children != rows.num_values || layer.length != end - start) {
    corrupt("levels describe %zu lists of %zu items instead of %zu of %zu", layer.length, layer.num_children,
            end - start, rows.num_values);
  }
  rows.list_offsets = std::move(layer.offsets);
  if (layer.num_nulls != 0) {
    rows.list_validity = std::move(layer.validity);
  }
}

}  // namespace

ChunkRange choose_chunks(const MiniBlocks& page, size_t start, size_t end) {
  size_t n = page.position.size();
  auto from = static_cast<int64_t>(start), to = static_cast<int64_t>(end);
  ChunkRange range{};
  if (page.lists) {
    const std::vector<int64_t>& begun = page.lists->first_row;
    const std::vector<int64_t>& ended = page.lists->ended_rows;
    range.first = static_cast<size_t>(std::upper_bound(begun.begin() + 1, begun.end(), from) - begun.begin()) - 1;
    range.last = static_cast<size_t>(std::upper_bound(ended.begin() + 1, ended.end(), to - 1) - ended.begin());
  } else {
    const std::vector<int64_t>& values = page.first_value;
    range.first = static_cast<size_t>(std::upper_bound(values.begin(), values.end(), from) - values.begin()) - 1;
    range.last = static_cast<size_t>(std::lower_bound(values.begin(), values.end(), to) - values.begin());
  }
  if (start >= end || end > page.num_rows || range.first >= range.last || range.last > n) {
    corrupt("rows [%zu, %zu) of a page of %zu", start, end, page.num_rows);
  }
  return range;
}

void DecodedRows::add_bits(unsigned value_bits, unsigned list_bits, const std::vector<int64_t>& rows,
                           std::vector<uint64_t>& bits) const {
  OffsetReader value_offset(values.data(), value_bits);
  auto of_values = [&](size_t n) {
    return data ? 8 * value_offset[first_value + n] + value_bits * n : (value_bits + 1) * n;
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    auto row = static_cast<size_t>(rows[i]);
    if (list_offsets) {
      bits[i] += of_values(OffsetReader(list_offsets->data(), list_bits)[row]) + list_bits * row;
    } else {
      bits[i] += of_values(row);
    }
  }
}

DecodedRows decode_rows(const MiniBlocks& page, PieceReader& file, size_t start, size_t end, Scratch& scratch) {
  ChunkRange range = choose_chunks(page, start, end);
  if (DecodedRows rows; copy_flat(page, range, file, scratch.encoded, rows)) {
    rows.first_value = start - static_cast<size_t>(page.first_value[range.first]);
    rows.num_values = end - start;
    return rows;
  }
  Encoded encoded = read_chunks(page, range, file, scratch.encoded);
  const Counts& counts = encoded.counts;
  Chunks chunks = parse_chunks(encoded.data, encoded.offsets, counts, page.shape);
  DecodedRows rows;
  if (page.lists) {
    decode_lists(page, chunks, counts, range, start, end, rows);
  } else {
    rows.first_value = start - static_cast<size_t>(page.first_value[range.first]);
    rows.num_values = end - start;
    if (page.has_nulls && page.shape.has_def) {
      Bitmap bitmap = decode_validity(chunks.def, counts, page.def, 0, page.max_def);
      if (bitmap.num_nulls != 0) {
        rows.validity = std::move(bitmap.bits);
      }
    }
  }
  decode_values(page, chunks.buffers, counts, scratch, rows);
  return rows;
}

}  // namespace lance
