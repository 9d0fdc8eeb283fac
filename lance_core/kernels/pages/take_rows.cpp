#include "pages/take_rows.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/bits.hpp"
#include "codecs/bitpacking.hpp"
#include "pages/take_flat_rows.hpp"

namespace lance {
namespace {

// A wanted value: its number among the `count` values of a buffer of a chunk.
struct Cell {
  const uint8_t* data;
  size_t bytes;
  size_t count;
  size_t index;
};

// The chunk of a wanted value, and its page.
struct ChunkCell {
  Cell cell;
  const MiniBlocks* page;
};

// A wanted list: its chunks, as a range of `Column::chunks_`, and the rows that begin before it in the first of them.
struct ListRow {
  const MiniBlocks* page = nullptr;
  size_t first = 0;
  size_t last = 0;
  size_t skip = 0;
};

// The decoded levels of a chunk.
struct ChunkLevels {
  Block rep{0};
  Block def{0};
};

// If the lists of a call have more items than this, by the mean of the first page, decoding whole chunks is faster.
constexpr double kManyItems = 1024;
// Bound of the memory, if the lists are longer than the mean.
constexpr size_t kMostItems = size_t{1} << 16;

using Members = std::vector<size_t>;  // numbers of cells

// The words that contain bit-packed values, one or two words per value.
template <class T>
class PackedWords {
 public:
  explicit PackedWords(size_t n) : places_(n), low_(n), high_(n) {}

  // Adds the copies for the `k`-th value, which is value number `value` of a packed group.
  void add(size_t k, const uint8_t* packed, unsigned bits, size_t value, std::vector<Copy>& copies) {
    if (bits == 0) {
      return;
    }
    places_[k] = PackedPlace<T>::of(bits, value);
    copies.push_back({packed + places_[k].low, sizeof(T), reinterpret_cast<uint8_t*>(&low_[k])});
    if (places_[k].is_split()) {
      copies.push_back({packed + places_[k].high(), sizeof(T), reinterpret_cast<uint8_t*>(&high_[k])});
    }
  }

  // Adds the copy for a value that is a word of its own.
  void add_word(size_t k, const uint8_t* word, std::vector<Copy>& copies) {
    places_[k].bits = sizeof(T) * 8;
    copies.push_back({word, sizeof(T), reinterpret_cast<uint8_t*>(&low_[k])});
  }

  T value(size_t k) const { return places_[k].bits == 0 ? T{0} : places_[k].value(low_[k], high_[k]); }

 private:
  std::vector<PackedPlace<T>> places_;
  std::vector<T> low_;
  std::vector<T> high_;
};

// The files of a call, and their maps if they are mapped.
using Files = std::unordered_map<PieceReader*, const FileMap*>;

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

// Returns whether the known pages of a column have lists.
bool are_lists(const ColumnPages& column) {
  auto known = std::find_if(column.pages.begin(), column.pages.end(), [](const auto* page) { return page != nullptr; });
  return known != column.pages.end() && (*known)->lists.has_value();
}

class Column {
 public:
  Column(size_t num_rows, bool has_lists, const GuardedCopies& copier)
      : cells_(has_lists ? 0 : num_rows), lists_(has_lists ? num_rows : 0), copier_(copier) {}

  // Finds the chunks that have the rows of a file.
  void locate(const ColumnPages& column, const RowsToTake& part, const FileMap* map) {
    size_t n = part.rows.size / 8;
    std::vector<Place> places;
    for (size_t k = 0; k < n; ++k) {
      auto row = load<int64_t>(part.rows.data + 8 * k);
      auto place = part.places.data == nullptr ? k : load<uint64_t>(part.places.data + 8 * k);
      size_t number = column.page_of(row);
      if (number == column.pages.size() || place >= std::max(cells_.size(), lists_.size())) {
        corrupt("row %lld of %lld", static_cast<long long>(row), static_cast<long long>(column.starts.back()));
      }
      row -= column.starts[number];
      const MiniBlocks* known = column.pages[number];
      if (known == nullptr) {
        corrupt("page %zu is not known", number);
      }
      const MiniBlocks& page = *known;
      if (page.lists.has_value() == lists_.empty()) {
        corrupt("pages with and without lists in a column");
      }
      if (k == 0 && page.lists) {
        double per_row = static_cast<double>(page.first_value.back()) / static_cast<double>(page.num_rows);
        if (num_items_ += per_row* static_cast<double>(n); num_items_ > kManyItems) {
          corrupt("about %.0f items", num_items_);
        }
      }
      if (page.lists) {
        locate_list(page, static_cast<size_t>(row), lists_[place], map, *column.file, places);
        continue;
      }
      size_t chunk = chunk_of(page, row);
      cells_[place] = cell_of(page, chunk, *column.file);
      cells_[place].cell.index = static_cast<size_t>(row - page.first_value[chunk]);
      find(place, page.position[chunk], map, places);
    }
    if (map == nullptr) {
      read(*column.file, std::move(places));
    }
  }

  DecodedRows take() {
    const MiniBlocks* page = lists_.empty() ? cells_.empty() ? nullptr : cells_[0].page : lists_[0].page;
    if (page == nullptr) {
      corrupt("a column without rows");
    }
    open_chunks();
    DecodedRows result;
    if (lists_.empty()) {
      result.validity = take_validity();
    } else {
      take_lists(page->lists->offset_bits, result);
    }
    result.num_values = cells_.size();
    unsigned offset_bits = offset_bits_of(*page);
    for (const ChunkCell& cell : cells_) {
      if (offset_bits_of(*cell.page) != offset_bits ||
          (offset_bits == 0 && cell.page->value_bits() != page->value_bits())) {
        corrupt("pages of different types in a column");
      }
    }
    if (offset_bits == 0) {
      result.values = page->value_bits() == 1 ? take_bits() : take_fixed(page->value_bits());
    } else {
      take_variable(offset_bits, result);
    }
    return result;
  }

 private:
  struct Place {
    int64_t offset;  // position in the file
    size_t cell;
  };

  // Returns the cell of the first value of a chunk, whose bytes are not found yet.
  static ChunkCell cell_of(const MiniBlocks& page, size_t chunk, const PieceReader& file) {
    int64_t offset = page.position[chunk], length = page.length[chunk];
    auto file_bytes = static_cast<int64_t>(file.file_bytes());
    if (offset < 0 || length < 8 || length > file_bytes || offset > file_bytes - length) {
      corrupt("a chunk of %lld bytes at %lld", static_cast<long long>(length), static_cast<long long>(offset));
    }
    auto count = static_cast<size_t>(page.first_value[chunk + 1] - page.first_value[chunk]);
    return {{nullptr, static_cast<size_t>(length), count, 0}, &page};
  }

  // Finds the bytes of a chunk in the map, or adds the chunk to `places`, which are read.
  void find(size_t number, int64_t offset, const FileMap* map, std::vector<Place>& places) {
    if (map != nullptr) {
      cells_[number].cell.data = map->data() + offset;
    } else {
      places.push_back({offset, number});
    }
  }

  // Finds the chunks of a list. A chunk has one cell, however many wanted lists it has.
  void locate_list(const MiniBlocks& page, size_t row, ListRow& list, const FileMap* map, const PieceReader& file,
                   std::vector<Place>& places) {
    ChunkRange range = choose_chunks(page, row, row + 1);
    list = {&page, chunks_.size(), 0, row - static_cast<size_t>(page.lists->first_row[range.first])};
    for (size_t i = range.first; i < range.last; ++i) {
      if (page.length[i] == 0) {
        continue;
      }
      auto [known, is_new] = numbers_.try_emplace({&page, i}, cells_.size());
      if (is_new) {
        cells_.push_back(cell_of(page, i, file));
        find(known->second, page.position[i], map, places);
      }
      chunks_.push_back(known->second);
    }
    list.last = chunks_.size();
  }

  static unsigned offset_bits_of(const MiniBlocks& page) {
    if (page.items) {
      return page.items->offset_bits;
    }
    return page.coding == ValueCoding::variable || page.coding == ValueCoding::fsst ? page.bits : 0;
  }

  // Reads the chunks of a file that is not mapped.
  void read(PieceReader& file, std::vector<Place> places) {
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.offset < b.offset; });
    std::vector<int64_t> offsets, lengths;
    for (const Place& place : places) {
      if (offsets.empty() || offsets.back() != place.offset) {
        offsets.push_back(place.offset);
        lengths.push_back(static_cast<int64_t>(cells_[place.cell].cell.bytes));
      }
    }
    auto bytes = [](const std::vector<int64_t>& numbers) {
      return Bytes{reinterpret_cast<const uint8_t*>(numbers.data()), numbers.size() * 8};
    };
    Pieces pieces = file.read({{bytes(offsets), bytes(lengths)}});
    if (pieces.error != 0 || pieces.end >= 0) {
      corrupt("chunks could not be read");
    }
    const uint8_t* from = pieces.data[0].data();
    size_t k = 0;
    for (const Place& place : places) {
      while (offsets[k] != place.offset) {
        from += lengths[k++];
      }
      cells_[place.cell].cell.data = from;
    }
    kept_.push_back(std::move(pieces.data[0]));
  }

  void copy(const std::vector<Copy>& copies) const {
    if (!copier_.run(copies)) {
      corrupt("a file ends inside its chunks");
    }
  }

  // Runs the copies that `add(k, cell, copies)` adds for each of `members`.
  template <class Add>
  void copy_each(const std::vector<Cell>& cells, const Members& members, Add add) const {
    std::vector<Copy> copies;
    copies.reserve(members.size());
    for (size_t k : members) {
      add(k, cells[k], copies);
    }
    copy(copies);
  }

  // Finds the buffers of levels and values in the chunks.
  void open_chunks() {
    size_t n = cells_.size();
    std::vector<std::array<uint8_t, 16>> headers(n);
    std::vector<Copy> copies(n);
    for (size_t k = 0; k < n; ++k) {
      const auto& [cell, page] = cells_[k];
      if (page == nullptr || !page->can_take()) {
        corrupt("a page whose rows are not taken, or none");
      }
      copies[k] = {cell.data, std::min<size_t>(cell.bytes, 16), headers[k].data()};
    }
    copy(copies);
    reps_.resize(lists_.empty() ? 0 : n);
    levels_.resize(n);
    values_.resize(n);
    for (size_t k = 0; k < n; ++k) {
      const auto& [cell, page] = cells_[k];
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
        corrupt("a chunk of %zu bytes and %zu values with %zu levels in %zu and %zu bytes, and values in %zu",
                cell.bytes, cell.count, num_levels, rep_bytes, def_bytes, value_bytes);
      }
      if (shape.has_rep) {
        reps_[k] = {cell.data + rep_begin, rep_bytes, num_levels, 0};
      }
      levels_[k] = {cell.data + def_begin, def_bytes, shape.has_rep ? num_levels : cell.count, cell.index};
      values_[k] = {cell.data + begin, value_bytes, cell.count, cell.index};
    }
    for (Compressor compressor : {Compressor::lz4, Compressor::zstd}) {
      inflate_chunks(members([&](const MiniBlocks& page) { return page.compressor == compressor; }), compressor);
    }
  }

  // Decompresses chunks, each chunk once. Values are read from the decompressed bytes.
  void inflate_chunks(Members chosen, Compressor compressor) {
    if (chosen.empty()) {
      return;
    }
    std::sort(chosen.begin(), chosen.end(),
              [&](size_t a, size_t b) { return std::less<>{}(values_[a].data, values_[b].data); });
    std::vector<size_t> numbers;  // chunk of each cell
    Members firsts;               // one cell per chunk
    size_t total = 0;
    for (size_t k : chosen) {
      if (firsts.empty() || values_[firsts.back()].data != values_[k].data) {
        firsts.push_back(k);
        total += values_[k].bytes;
      }
      numbers.push_back(firsts.size() - 1);
    }
    Block packed(total);
    Stream chunks;
    chunks.base = {packed.data(), total};
    size_t at = 0;
    copy_each(values_, firsts, [&](size_t, const Cell& cell, std::vector<Copy>& copies) {
      copies.push_back({cell.data, cell.bytes, packed.data() + at});
      chunks.append(at, cell.bytes);
      at += cell.bytes;
    });
    Block inflated(0);
    chunks = inflate(chunks, compressor, inflated);
    for (size_t i = 0; i < chosen.size(); ++i) {
      Bytes chunk = chunks.chunk(numbers[i]);
      values_[chosen[i]].data = chunk.data;
      values_[chosen[i]].bytes = chunk.size;
    }
    kept_.push_back(std::move(inflated));
  }

  // Returns the cells of the pages that `accept` accepts.
  template <class Accept>
  Members members(Accept accept) const {
    Members chosen;
    chosen.reserve(cells_.size());
    for (size_t k = 0; k < cells_.size(); ++k) {
      if (accept(*cells_[k].page)) {
        chosen.push_back(k);
      }
    }
    return chosen;
  }

  // Copies values of `width` bytes to `out + k * width`.
  void pick_fixed(const std::vector<Cell>& cells, const Members& members, size_t width, uint8_t* out) const {
    copy_each(cells, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
      if (cell.count > cell.bytes / width) {
        corrupt("%zu values of %zu bytes in %zu bytes", cell.count, width, cell.bytes);
      }
      copies.push_back({cell.data + cell.index * width, width, out + k * width});
    });
  }

  // Copies byte-stream-split values of `width` bytes to `out + k * width`.
  void pick_streams(const Members& members, size_t width, uint8_t* out) const {
    copy_each(values_, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
      if (cell.count > cell.bytes / width) {
        corrupt("%zu split values of %zu bytes in %zu bytes", cell.count, width, cell.bytes);
      }
      for (size_t byte = 0; byte < width; ++byte) {
        copies.push_back({cell.data + byte * cell.count + cell.index, 1, out + k * width + byte});
      }
    });
  }

  // Decodes values of inline bit packing to `out[k]`.
  template <class T>
  void pick_inline(const std::vector<Cell>& cells, const Members& members, T* out) const {
    std::vector<T> bits(cells.size());
    copy_each(cells, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
      if (cell.bytes < sizeof(T)) {
        corrupt("a chunk without its bit width");
      }
      copies.push_back({cell.data, sizeof(T), reinterpret_cast<uint8_t*>(&bits[k])});
    });
    PackedWords<T> words(cells.size());
    copy_each(cells, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
      check_inline_chunk<T>(cell.bytes, cell.count, bits[k], k);
      words.add(k, cell.data + sizeof(T), static_cast<unsigned>(bits[k]), cell.index, copies);
    });
    for (size_t k : members) {
      out[k] = words.value(k);
    }
  }

  // Decodes levels of out-of-line bit packing to `out[k]`.
  void pick_packed_levels(const Members& members, unsigned bits, uint16_t* out) const {
    PackedWords<uint16_t> words(levels_.size());
    copy_each(levels_, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
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
  void decode_each(const std::vector<Cell>& cells, const Members& members, EncodingOf encoding_of, Use use) const {
    std::vector<size_t> begins(cells.size());
    size_t total = 0;
    for (size_t k : members) {
      begins[k] = total;
      total += cells[k].bytes;
    }
    std::vector<uint8_t> bytes(total);
    copy_each(cells, members, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
      copies.push_back({cell.data, cell.bytes, bytes.data() + begins[k]});
    });
    for (size_t k : members) {
      Stream stream;
      stream.base = {bytes.data(), total};
      stream.append(begins[k], cells[k].bytes);
      use(k, decode_levels(stream, Counts({static_cast<int64_t>(cells[k].count)}), encoding_of(*cells_[k].page)));
    }
  }

  // Decodes levels in runs to `out[k]`. A level is known only after all levels before it.
  void pick_runs(const Members& members, uint16_t* out) const {
    decode_each(
        levels_, members, [](const MiniBlocks& page) { return page.def; },
        [&](size_t k, const Block& levels) { out[k] = load<uint16_t>(levels.data() + 2 * levels_[k].index); });
  }

  std::vector<ChunkLevels> decode_chunk_levels() const {
    std::vector<ChunkLevels> levels(cells_.size());
    decode_each(
        reps_, members([](const MiniBlocks&) { return true; }), [](const MiniBlocks& page) { return page.lists->rep; },
        [&](size_t k, Block rep) { levels[k].rep = std::move(rep); });
    decode_each(
        levels_, members([](const MiniBlocks& page) { return page.shape.has_def; }),
        [](const MiniBlocks& page) { return page.def; }, [&](size_t k, Block def) { levels[k].def = std::move(def); });
    return levels;
  }

  // Decodes the levels of all lists. Afterwards the cells are the items of the lists, not the chunks.
  void take_lists(unsigned offset_bits, DecodedRows& result) {
    std::vector<ChunkLevels> levels = decode_chunk_levels();
    std::vector<size_t> ends{0};
    std::vector<bool> valid_lists, valid_items;
    std::vector<ChunkCell> items;
    std::vector<Cell> values;
    for (const ListRow& list : lists_) {
      if (list.page == nullptr || list.page->lists->offset_bits != offset_bits) {
        corrupt("lists of different types in a column, or none");
      }
      Block rep(0), def(0);
      size_t num_values = 0;
      for (size_t i = list.first; i < list.last; ++i) {
        num_values += values_[chunks_[i]].count;
      }
      Bytes reps = joined(list, levels, &ChunkLevels::rep, rep), defs = joined(list, levels, &ChunkLevels::def, def);
      const ListShape& shape = *list.page->lists;
      RowRange found = find_rows(reps, defs, 1, shape.max_visible, list.skip, 1);
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
        size_t chunk = chunks_[i], end = begin + values_[chunk].count;
        for (size_t v = std::max(begin, found.value_begin); v < std::min(end, found.value_end); ++v) {
          items.push_back(cells_[chunk]);
          values.push_back(values_[chunk]);
          values.back().index = v - begin;
        }
        begin = end;
      }
      ends.push_back(items.size());
      valid_lists.push_back(!is_missing || first != shape.levels.null);
    }
    cells_ = std::move(items);
    values_ = std::move(values);
    result.validity = bitmap_of(valid_items);
    result.list_validity = bitmap_of(valid_lists);
    result.list_offsets = offsets_of(ends, offset_bits);
  }

  // Returns the levels of the chunks of a list, one after the other; in `memory` if there are several chunks.
  Bytes joined(const ListRow& list, const std::vector<ChunkLevels>& levels, Block ChunkLevels::* kind,
               Block& memory) const {
    size_t total = 0;
    for (size_t i = list.first; i < list.last; ++i) {
      total += (levels[chunks_[i]].*kind).size();
    }
    if (list.last - list.first == 1) {
      return {(levels[chunks_[list.first]].*kind).data(), total};
    }
    memory = Block(total);
    uint8_t* to = memory.data();
    for (size_t i = list.first; i < list.last; ++i) {
      const Block& part = levels[chunks_[i]].*kind;
      copy_bytes(to, part.data(), part.size());
      to += part.size();
    }
    return {memory.data(), total};
  }

  // Returns a bitmap of validity; none if all bits are set.
  static std::optional<Block> bitmap_of(const std::vector<bool>& valid) {
    if (std::find(valid.begin(), valid.end(), false) == valid.end()) {
      return std::nullopt;
    }
    Block bitmap(ceil8(valid.size()));
    BitWriter writer(bitmap.data());
    for (bool bit : valid) {
      writer.append(bit);
    }
    return bitmap;
  }

  static Block offsets_of(const std::vector<size_t>& ends, unsigned offset_bits) {
    Block offsets(ends.size() * offset_bytes(offset_bits));
    for (size_t k = 0; k < ends.size(); ++k) {
      if (offset_bits == 32) {
        store(offsets.data() + 4 * k, static_cast<uint32_t>(ends[k]));
      } else {
        store(offsets.data() + 8 * k, static_cast<uint64_t>(ends[k]));
      }
    }
    return offsets;
  }

  std::optional<Block> take_validity() const {
    auto nullable = [](const MiniBlocks& page) { return page.shape.has_def && page.has_nulls; };
    std::vector<uint16_t> levels(cells_.size());
    auto coded = [&](LevelCoding coding) {
      return members([&](const MiniBlocks& page) { return nullable(page) && page.def.coding == coding; });
    };
    if (Members flat = coded(LevelCoding::flat); !flat.empty()) {
      pick_fixed(levels_, flat, 2, reinterpret_cast<uint8_t*>(levels.data()));
    }
    if (Members packed = coded(LevelCoding::bitpacked_inline); !packed.empty()) {
      pick_inline(levels_, packed, levels.data());
    }
    uint64_t widths = 0;
    for (size_t k : coded(LevelCoding::bitpacked)) {
      widths |= uint64_t{1} << std::min(cells_[k].page->def.bits, 63u);
    }
    for (unsigned bits = 0; widths >> bits != 0; ++bits) {
      pick_packed_levels(members([&](const MiniBlocks& page) {
                           return nullable(page) && page.def.coding == LevelCoding::bitpacked && page.def.bits == bits;
                         }),
                         bits, levels.data());
    }
    if (Members runs = coded(LevelCoding::runs); !runs.empty()) {
      pick_runs(runs, levels.data());
    }
    std::vector<bool> valid(cells_.size());
    for (size_t k = 0; k < cells_.size(); ++k) {
      if (levels[k] > cells_[k].page->max_def) {
        corrupt("definition level %u where %u is the highest", levels[k], cells_[k].page->max_def);
      }
      valid[k] = levels[k] == 0;
    }
    return bitmap_of(valid);
  }

  Block take_bits() const {
    std::vector<uint8_t> bytes(cells_.size());
    Members all(cells_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    copy_each(values_, all, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
      if (cells_[k].page->coding != ValueCoding::flat || ceil8(cell.count) > cell.bytes) {
        corrupt("%zu bits in %zu bytes", cell.count, cell.bytes);
      }
      copies.push_back({cell.data + cell.index / 8, 1, &bytes[k]});
    });
    Block out(ceil8(cells_.size()));
    BitWriter writer(out.data());
    for (size_t k = 0; k < cells_.size(); ++k) {
      writer.append((bytes[k] >> (values_[k].index % 8)) & 1);
    }
    return out;
  }

  // Decodes words of `width` bytes of the pages that `accept` accepts.
  template <class Accept>
  void take_words(size_t width, Accept accept, uint8_t* out) const {
    auto has = [&](ValueCoding coding) {
      return members(
          [&](const MiniBlocks& page) { return page.coding == coding && page.bits == 8 * width && accept(page); });
    };
    if (Members flat = has(ValueCoding::flat); !flat.empty()) {
      pick_fixed(values_, flat, width, out);
    }
    if (Members streams = has(ValueCoding::byte_streams); !streams.empty()) {
      pick_streams(streams, width, out);
    }
    if (Members packed = has(ValueCoding::bitpacked_inline); !packed.empty()) {
      switch (width) {
        case 1:
          return pick_inline(values_, packed, out);
        case 2:
          return pick_inline(values_, packed, reinterpret_cast<uint16_t*>(out));
        case 4:
          return pick_inline(values_, packed, reinterpret_cast<uint32_t*>(out));
        case 8:
          return pick_inline(values_, packed, reinterpret_cast<uint64_t*>(out));
        default:
          corrupt("bit packing of words of %zu bytes", width);
      }
    }
  }

  Block take_fixed(unsigned bits) const {
    if (bits < 8 || bits % 8 != 0) {
      corrupt("values of %u bits", bits);
    }
    size_t width = bits / 8;
    Block out(cells_.size() * width);
    take_words(width, [](const MiniBlocks& page) { return !page.items; }, out.data());
    each_index([&](size_t k, const Items& items, size_t index) {
      std::memcpy(out.data() + k * width, items.data.data + index * width, width);
    });
    return out;
  }

  // Finds the stored bytes of values: `stored[k]` points into `staged` or into a dictionary.
  template <class T>
  void stage_values(std::vector<Bytes>& stored, std::vector<uint8_t>& staged) const {
    Members chosen = members([](const MiniBlocks& page) { return !page.items; });
    std::vector<T> edges(2 * cells_.size());
    copy_each(values_, chosen, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
      if (cell.bytes / sizeof(T) < cell.count + 1) {
        corrupt("%zu bytes for %zu offsets", cell.bytes, cell.count + 1);
      }
      copies.push_back({cell.data + cell.index * sizeof(T), 2 * sizeof(T), reinterpret_cast<uint8_t*>(&edges[2 * k])});
    });
    size_t total = 0;
    for (size_t k : chosen) {
      const Cell& cell = values_[k];
      T begin = edges[2 * k], end = edges[2 * k + 1];
      if (begin < (cell.count + 1) * sizeof(T) || end < begin || end > cell.bytes) {
        corrupt("a chunk of %zu bytes holds a value at [%llu, %llu)", cell.bytes,
                static_cast<unsigned long long>(begin), static_cast<unsigned long long>(end));
      }
      total += end - begin;
    }
    staged.resize(total);
    uint8_t* to = staged.data();
    copy_each(values_, chosen, [&](size_t k, const Cell& cell, std::vector<Copy>& copies) {
      stored[k] = {to, static_cast<size_t>(edges[2 * k + 1] - edges[2 * k])};
      if (stored[k].size != 0) {
        copies.push_back({cell.data + edges[2 * k], stored[k].size, to});
      }
      to += stored[k].size;
    });
  }

  // Calls `use(k, items, index)` for each value that is the index of an item.
  template <class Use>
  void each_index(Use use) const {
    for (size_t width : {1, 2, 4, 8}) {
      auto accept = [&](const MiniBlocks& page) { return page.items && page.bits == 8 * width; };
      Members chosen = members(accept);
      if (chosen.empty()) {
        continue;
      }
      std::vector<uint8_t> indices(cells_.size() * width);
      take_words(width, accept, indices.data());
      for (size_t k : chosen) {
        uint64_t index = 0;
        std::memcpy(&index, indices.data() + k * width, width);  // supported hosts are little-endian
        const Items& items = *cells_[k].page->items;
        if (index >= items.count) {
          corrupt("dictionary index %llu of %zu items", static_cast<unsigned long long>(index), items.count);
        }
        use(k, items, index);
      }
    }
  }

  // Looks up the items of values that are indices of texts.
  void look_up(std::vector<Bytes>& stored) const {
    each_index([&](size_t k, const Items& items, size_t index) {
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

  void take_variable(unsigned offset_bits, DecodedRows& result) const {
    size_t n = cells_.size();
    std::vector<Bytes> stored(n);
    std::vector<uint8_t> staged;
    if (offset_bytes(offset_bits) == 4) {
      stage_values<uint32_t>(stored, staged);
    } else {
      stage_values<uint64_t>(stored, staged);
    }
    look_up(stored);
    auto symbols = [&](size_t k) {
      const MiniBlocks& page = *cells_[k].page;
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

  std::vector<ChunkCell> cells_;  // of the wanted values; of the chunks until `take_lists`
  std::vector<ListRow> lists_;    // none in a column without lists
  std::vector<size_t> chunks_;    // numbers of the cells of the chunks of each list
  std::map<std::pair<const MiniBlocks*, size_t>, size_t> numbers_;  // of the cells of chunks
  double num_items_ = 0;                                            // estimated number of items of all lists
  std::vector<Cell> reps_;
  std::vector<Cell> levels_;
  std::vector<Cell> values_;
  std::vector<Block> kept_;  // memory of cells that are not in a map
  const GuardedCopies& copier_;
};

}  // namespace

size_t ColumnPages::page_of(int64_t row) const {
  if (row < 0 || row >= starts.back()) {
    return pages.size();
  }
  if (pages.size() == 1) {
    return 0;
  }
  auto above = std::upper_bound(starts.begin(), starts.end(), row);
  return static_cast<size_t>(above - starts.begin()) - 1;
}

bool ColumnPages::is_flat() const {
  return std::any_of(flat_pages.begin(), flat_pages.end(), [](const auto* page) { return page != nullptr; });
}

std::vector<size_t> ColumnPages::unknown(Bytes rows) const {
  std::vector<size_t> found;
  for (size_t k = 0; k < rows.size / 8; ++k) {
    size_t number = page_of(load<int64_t>(rows.data + 8 * k));
    bool is_unknown = number < pages.size() && !is_known(number);
    if (is_unknown && (found.empty() || found.back() != number)) {
      found.push_back(number);
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<std::optional<DecodedRows>> take_rows(const std::vector<RowsToTake>& parts, size_t num_columns,
                                                  size_t num_rows) {
  Files files;
  for (const RowsToTake& part : parts) {
    if (part.columns.size() != num_columns || part.rows.size % 8 != 0 ||
        (part.places.data != nullptr && part.places.size != part.rows.size)) {
      corrupt("%zu columns, and %zu bytes of rows for %zu of places", part.columns.size(), part.rows.size,
              part.places.size);
    }
    for (const ColumnPages* column : part.columns) {
      if (files.count(column->file) == 0) {
        files[column->file] = column->file->map_for(num_columns * (part.rows.size / 8));
      }
    }
  }
  std::vector<MapRange> maps;
  for (const auto& [file, map] : files) {
    if (map != nullptr) {
      maps.push_back(map->range());
    }
  }
  GuardedCopies copier(std::move(maps));
  std::vector<std::optional<DecodedRows>> taken(num_columns);
  for (size_t i = 0; i < num_columns; ++i) {
    try {
      if (!parts.empty() && parts[0].columns[i]->is_flat()) {
        std::vector<FlatRowsToTake> flat;
        for (const RowsToTake& part : parts) {
          flat.push_back({part.columns[i], part.rows, part.places, files.at(part.columns[i]->file)});
        }
        taken[i] = take_flat_rows(flat, num_rows, copier);
        continue;
      }
      bool has_lists = !parts.empty() && are_lists(*parts[0].columns[i]);
      Column column(num_rows, has_lists, copier);
      for (const RowsToTake& part : parts) {
        column.locate(*part.columns[i], part, files.at(part.columns[i]->file));
      }
      taken[i] = column.take();
    } catch (const CorruptData&) {
    } catch (const OffsetOverflow&) {
    }
  }
  for (const auto& [file, map] : files) {
    if (map != nullptr && !file->is_whole()) {
      return std::vector<std::optional<DecodedRows>>(num_columns);
    }
  }
  return taken;
}

}  // namespace lance
