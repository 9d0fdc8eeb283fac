#include "take/chunk_cells.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "take/range_union.hpp"

namespace lance {
namespace {

// If the lists of a call have more items than this, by the mean of the first page, decoding whole chunks is faster.
constexpr double kManyItems = 1024;

// Returns the chunk of `page` that has a row.
size_t chunk_of(const MiniBlocks& page, int64_t row) {
  const std::vector<int64_t>& first = page.first_value;
  size_t n = page.position.size();
  // Guesses the chunk, since chunks have similar numbers of values.
  auto guess =
      static_cast<size_t>(static_cast<double>(row) / static_cast<double>(page.num_rows) * static_cast<double>(n));
  if (guess < n && first[guess] <= row && row < first[guess + 1]) {
    return guess;
  }
  auto above = std::upper_bound(first.begin(), first.end(), row);
  auto chunk = static_cast<size_t>(above - first.begin()) - 1;
  if (above == first.begin() || chunk >= n || first[chunk] > row || row >= first[chunk + 1]) {
    corrupt("row %lld of %zu", static_cast<long long>(row), page.num_rows);
  }
  return chunk;
}

// Returns the cell of the first value of a chunk, whose bytes are not found yet.
ChunkCell cell_of(const MiniBlocks& page, size_t chunk, const PieceReader& file) {
  int64_t offset = page.position[chunk], length = page.length[chunk];
  auto file_bytes = static_cast<int64_t>(file.file_bytes());
  if (offset < 0 || length < 8 || length > file_bytes || offset > file_bytes - length) {
    corrupt("a chunk of %lld bytes at %lld", static_cast<long long>(length), static_cast<long long>(offset));
  }
  auto count = static_cast<size_t>(page.first_value[chunk + 1] - page.first_value[chunk]);
  return {{nullptr, static_cast<size_t>(length), count, 0}, &page};
}

}  // namespace

void ChunkCells::locate(const ColumnPages& column, const RowsToTake& part, const FileMap* map) {
  size_t n = part.rows.size / 8;
  std::vector<Place> places;
  for (size_t k = 0; k < n; ++k) {
    auto row = load<int64_t>(part.rows.data + 8 * k);
    auto place = part.places.data == nullptr ? k : load<uint64_t>(part.places.data + 8 * k);
    size_t number = column.page_of(row);
    if (number == column.pages.size() || place >= std::max(cells.size(), lists.size())) {
      corrupt("row %lld of %lld", static_cast<long long>(row), static_cast<long long>(column.starts.back()));
    }
    row -= column.starts[number];
    const MiniBlocks* known = column.pages[number];
    if (known == nullptr) {
      corrupt("page %zu is not known", number);
    }
    const MiniBlocks& page = *known;
    if (page.lists.has_value() == lists.empty()) {
      corrupt("pages with and without lists in a column");
    }
    if (k == 0 && page.lists) {
      double per_row = static_cast<double>(page.first_value.back()) / static_cast<double>(page.num_rows);
      if (num_items_ += per_row* static_cast<double>(n); num_items_ > kManyItems) {
        corrupt("about %.0f items", num_items_);
      }
    }
    if (page.lists) {
      locate_list(page, static_cast<size_t>(row), lists[place], map, *column.file, places);
      continue;
    }
    size_t chunk = chunk_of(page, row);
    cells[place] = cell_of(page, chunk, *column.file);
    cells[place].cell.index = static_cast<size_t>(row - page.first_value[chunk]);
    find(place, page.position[chunk], map, places);
  }
  if (map == nullptr) {
    kept_.push_back(read_union(*column.file, places,
                               [&](const Place& place, const uint8_t* bytes) { cells[place.cell].cell.data = bytes; }));
  }
}

// Finds the bytes of a chunk in the map, or adds the chunk to `places`, which are read.
void ChunkCells::find(size_t number, int64_t offset, const FileMap* map, std::vector<Place>& places) {
  if (map != nullptr) {
    cells[number].cell.data = map->data() + offset;
  } else {
    places.push_back({offset, cells[number].cell.bytes, number});
  }
}

// Finds the chunks of a list. A chunk has one cell, however many wanted lists it has.
void ChunkCells::locate_list(const MiniBlocks& page, size_t row, ListRow& list, const FileMap* map,
                             const PieceReader& file, std::vector<Place>& places) {
  ChunkRange range = choose_chunks(page, row, row + 1);
  list = {&page, chunks.size(), 0, row - static_cast<size_t>(page.lists->first_row[range.first])};
  for (size_t i = range.first; i < range.last; ++i) {
    if (page.length[i] == 0) {
      continue;
    }
    auto [known, is_new] = numbers_.try_emplace({&page, i}, cells.size());
    if (is_new) {
      cells.push_back(cell_of(page, i, file));
      find(known->second, page.position[i], map, places);
    }
    chunks.push_back(known->second);
  }
  list.last = chunks.size();
}

void ChunkCells::copy(const std::vector<Copy>& copies) const {
  if (!copier_.run(copies)) {
    corrupt("a file ends inside its chunks");
  }
}

const MiniBlocks* ChunkCells::first_page() const {
  if (!lists.empty()) {
    return lists[0].page;
  }
  return cells.empty() ? nullptr : cells[0].page;
}

void ChunkCells::open() {
  size_t n = cells.size();
  std::vector<std::array<uint8_t, 16>> headers(n);
  std::vector<Copy> copies(n);
  for (size_t k = 0; k < n; ++k) {
    const auto& [cell, page] = cells[k];
    if (page == nullptr || !page->can_take()) {
      corrupt("a page whose rows are not taken, or none");
    }
    copies[k] = {cell.data, std::min<size_t>(cell.bytes, 16), headers[k].data()};
  }
  copy(copies);
  reps.resize(lists.empty() ? 0 : n);
  levels.resize(n);
  values.resize(n);
  for (size_t k = 0; k < n; ++k) {
    const auto& [cell, page] = cells[k];
    const ChunkShape& shape = page->shape;
    const uint8_t* header = headers[k].data();
    size_t num_levels = load<uint16_t>(header), at = 2;
    auto read_size = [&](bool is_there) {
      at += is_there ? 2 : 0;
      return is_there ? load<uint16_t>(header + at - 2) : size_t{0};
    };
    size_t rep_bytes = read_size(shape.has_rep), def_bytes = read_size(shape.has_def);
    size_t value_bytes = shape.large ? load<uint32_t>(header + at) : load<uint16_t>(header + at);
    size_t rep_begin = up8(at + (shape.large ? 4 : 2)), def_begin = rep_begin + up8(rep_bytes);
    size_t begin = def_begin + up8(def_bytes);
    bool has_levels = shape.has_rep ? num_levels >= cell.count : !shape.has_def || num_levels == cell.count;
    if (begin > cell.bytes || value_bytes > cell.bytes - begin || !has_levels) {
      corrupt("a chunk of %zu bytes and %zu values with %zu levels in %zu and %zu bytes, and values in %zu", cell.bytes,
              cell.count, num_levels, rep_bytes, def_bytes, value_bytes);
    }
    if (shape.has_rep) {
      reps[k] = {cell.data + rep_begin, rep_bytes, num_levels, 0};
    }
    levels[k] = {cell.data + def_begin, def_bytes, shape.has_rep ? num_levels : cell.count, cell.index};
    values[k] = {cell.data + begin, value_bytes, cell.count, cell.index};
  }
  for (Compressor compressor : {Compressor::lz4, Compressor::zstd}) {
    inflate_chunks(members([&](const MiniBlocks& page) { return page.compressor == compressor; }), compressor);
  }
}

// Decompresses chunks, each chunk once. Values are read from the decompressed bytes.
void ChunkCells::inflate_chunks(Members chosen, Compressor compressor) {
  if (chosen.empty()) {
    return;
  }
  std::sort(chosen.begin(), chosen.end(),
            [&](size_t a, size_t b) { return std::less<>{}(values[a].data, values[b].data); });
  std::vector<size_t> numbers;  // chunk of each cell
  Members firsts;               // one cell per chunk
  size_t total = 0;
  for (size_t k : chosen) {
    if (firsts.empty() || values[firsts.back()].data != values[k].data) {
      firsts.push_back(k);
      total += values[k].bytes;
    }
    numbers.push_back(firsts.size() - 1);
  }
  Block packed(total);
  Stream chunks;
  chunks.base = {packed.data(), total};
  size_t at = 0;
  copy_each(values, firsts, [&](size_t, const Cell& cell, std::vector<Copy>& copies) {
    copies.push_back({cell.data, cell.bytes, packed.data() + at});
    chunks.append(at, cell.bytes);
    at += cell.bytes;
  });
  Block inflated(0);
  chunks = inflate(chunks, compressor, inflated);
  for (size_t i = 0; i < chosen.size(); ++i) {
    Bytes chunk = chunks.chunk(numbers[i]);
    values[chosen[i]].data = chunk.data;
    values[chosen[i]].bytes = chunk.size;
  }
  kept_.push_back(std::move(inflated));
}

}  // namespace lance
