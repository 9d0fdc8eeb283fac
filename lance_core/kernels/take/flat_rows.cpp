#include "take/flat_rows.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/bits.hpp"
#include "base/variable.hpp"
#include "take/range_union.hpp"

namespace lance {
namespace {

// Each item is copied by itself. The decoder in Python takes more items.
constexpr size_t kMostItems = 1 << 16;

// A wanted row: its page, its number in the page, and its file.
struct FlatCell {
  const FlatPage* page = nullptr;
  size_t row = 0;
  PieceReader* file = nullptr;
  const FileMap* map = nullptr;
};

// Copies of short byte ranges of several files.
class FileCopies {
 public:
  explicit FileCopies(const GuardedCopies& copier) : copier_(copier) {}

  // Adds bytes of a part of the file of a cell.
  void add(const FlatCell& cell, FilePart part, size_t begin, size_t length, uint8_t* to) {
    size_t file_bytes = cell.file->file_bytes();
    if (begin > part.size || length > part.size - begin || part.offset > file_bytes ||
        begin + length > file_bytes - part.offset) {
      corrupt("%zu bytes at %zu of a buffer of %zu bytes at %zu", length, begin, part.size, part.offset);
    }
    if (length == 0) {
      return;
    }
    if (cell.map != nullptr) {
      mapped_.push_back({cell.map->data() + part.offset + begin, length, to});
    } else {
      unmapped_[cell.file].push_back({part.offset + begin, length, to});
    }
  }

  void run() {
    if (!copier_.run(mapped_)) {
      corrupt("a file ends inside its pages");
    }
    // Neighbouring rows share bytes: the two ends of a string are also an end of the string before and after it.
    for (auto& [file, copies] : unmapped_) {
      read_union(*file, copies,
                 [](const FileCopy& copy, const uint8_t* bytes) { std::memcpy(copy.to, bytes, copy.length); });
    }
    mapped_.clear();
    unmapped_.clear();
  }

 private:
  struct FileCopy {
    size_t offset;
    size_t length;
    uint8_t* to;
  };

  const GuardedCopies& copier_;
  std::vector<Copy> mapped_;
  std::map<PieceReader*, std::vector<FileCopy>> unmapped_;
};

std::vector<FlatCell> located(const std::vector<FlatRowsToTake>& parts, size_t num_rows) {
  std::vector<FlatCell> cells(num_rows);
  for (const FlatRowsToTake& part : parts) {
    const ColumnPages& column = *part.column;
    for (size_t k = 0; k < part.rows.size / 8; ++k) {
      auto row = load<int64_t>(part.rows.data + 8 * k);
      auto place = part.places.data == nullptr ? k : load<uint64_t>(part.places.data + 8 * k);
      size_t number = column.page_of(row);
      const FlatPage* page = number < column.num_pages() ? column.flat_pages[number] : nullptr;
      if (page == nullptr || place >= num_rows) {
        corrupt("row %lld of %lld, whose page is not known", static_cast<long long>(row),
                static_cast<long long>(column.starts.back()));
      }
      row -= column.starts[number];
      if (static_cast<size_t>(row) >= page->num_rows) {
        corrupt("row %lld of a page of %zu", static_cast<long long>(row), page->num_rows);
      }
      cells[place] = {page, static_cast<size_t>(row), column.file, part.map};
    }
  }
  for (const FlatCell& cell : cells) {
    if (cell.page == nullptr) {
      corrupt("a row that no file gives");
    }
    if (cell.page->has_offsets() != cells[0].page->has_offsets() ||
        cell.page->value_bits() != cells[0].page->value_bits() ||
        cell.page->list_bits() != cells[0].page->list_bits()) {
      corrupt("pages of different types in a column");
    }
  }
  return cells;
}

bool bit_of(const std::vector<uint8_t>& bytes, size_t k, size_t row) { return (bytes[k] >> (row % 8) & 1) != 0; }

void take_fixed(const std::vector<FlatCell>& cells, FileCopies& copies, DecodedRows& result) {
  size_t n = cells.size(), bits = cells[0].page->bits, width = bits / 8;
  std::vector<uint8_t> validity(n, 0xff), bytes(bits == 1 ? n : 0);
  Block values(bits == 1 ? ceil8(n) : n * width);
  for (size_t k = 0; k < n; ++k) {
    const auto& [page, row, file, map] = cells[k];
    if (bits == 1) {
      copies.add(cells[k], page->values, row / 8, 1, &bytes[k]);
    } else {
      copies.add(cells[k], page->values, row * width, width, values.data() + k * width);
    }
    if (page->validity) {
      copies.add(cells[k], *page->validity, row / 8, 1, &validity[k]);
    }
  }
  copies.run();
  if (bits == 1) {
    BitWriter writer(values.data());
    for (size_t k = 0; k < n; ++k) {
      writer.append(bit_of(bytes, k, cells[k].row));
    }
  }
  result.values = std::move(values);
  result.validity = validity_of(n, [&](size_t k) { return bit_of(validity, k, cells[k].row); });
}

// A string: its first byte in the file, or its bytes if it is an item of a dictionary. Or a list: its first item.
struct Extent {
  size_t begin = 0;
  size_t length = 0;
  bool is_valid = true;
  const uint8_t* item = nullptr;
};

// Returns the extent between two stored ends. `limit` is the number of bytes or items in the page.
Extent extent_at(uint64_t begin, uint64_t end, uint64_t null_adjustment, size_t limit) {
  // The end of a null is larger by the adjustment.
  bool is_valid = end < null_adjustment;
  begin -= begin < null_adjustment ? 0 : null_adjustment;
  end -= is_valid ? 0 : null_adjustment;
  if (begin > end || end > limit) {
    corrupt("a string or list at [%llu, %llu) of %zu", static_cast<unsigned long long>(begin),
            static_cast<unsigned long long>(end), limit);
  }
  return {begin, end - begin, is_valid};
}

Extent item_at(const Items& items, uint64_t index) {
  if (index >= items.count || index + 1 >= items.offsets.size / offset_bytes(items.offset_bits)) {
    corrupt("dictionary index %llu of %zu items", static_cast<unsigned long long>(index), items.count);
  }
  OffsetReader offsets(items.offsets.data, items.offset_bits);
  size_t begin = offsets[index], end = offsets[index + 1];
  if (end < begin) {
    corrupt("dictionary item %llu at [%zu, %zu)", static_cast<unsigned long long>(index), begin, end);
  }
  return {0, end - begin, index != 0, items.data.slice(begin, end - begin).data};
}

// Returns the strings or lists of cells.
std::vector<Extent> take_extents(const std::vector<FlatCell>& cells, FileCopies& copies) {
  size_t n = cells.size();
  // A string or list has two numbers, its beginning and its end. An index is the second number alone.
  std::vector<std::array<uint64_t, 2>> numbers(n);
  for (size_t k = 0; k < n; ++k) {
    const auto& [page, row, file, map] = cells[k];
    size_t width = page->bits / 8;  // hosts are little-endian
    size_t before = !page->items && row > 0 ? 1 : 0;
    auto* to = reinterpret_cast<uint8_t*>(&numbers[k][1 - before]);
    copies.add(cells[k], page->values, (row - before) * width, (1 + before) * width, to);
  }
  copies.run();
  std::vector<Extent> extents(n);
  for (size_t k = 0; k < n; ++k) {
    const FlatPage& page = *cells[k].page;
    auto [begin, end] = numbers[k];
    extents[k] = page.items   ? item_at(*page.items, end)
                 : page.lists ? extent_at(begin, end, page.lists->null_adjustment, page.lists->num_items)
                              : extent_at(begin, end, page.text->null_adjustment, page.text->data.size);
  }
  return extents;
}

void take_texts(const std::vector<FlatCell>& cells, FileCopies& copies, DecodedRows& result) {
  size_t n = cells.size();
  unsigned offset_bits = cells[0].page->value_bits();
  std::vector<Extent> texts = take_extents(cells, copies);
  size_t total = 0;
  for (const Extent& text : texts) {
    total += text.length;
  }
  if (offset_bits == 32 && total > INT32_MAX) {
    throw OffsetOverflow("more bytes than 32-bit offsets can address");
  }
  Block data(total);
  std::vector<size_t> ends{0};
  for (size_t k = 0; k < n; ++k) {
    const Extent& text = texts[k];
    if (cells[k].page->text) {
      copies.add(cells[k], cells[k].page->text->data, text.begin, text.length, data.data() + ends[k]);
    } else {
      copy_bytes(data.data() + ends[k], text.item, text.length);
    }
    ends.push_back(ends[k] + text.length);
  }
  copies.run();
  result.values = offsets_of(ends, offset_bits);
  result.data = std::move(data);
  result.validity = validity_of(n, [&](size_t k) { return texts[k].is_valid; });
}

void take_values(const std::vector<FlatCell>& cells, FileCopies& copies, DecodedRows& result) {
  result.num_values = cells.size();
  if (cells[0].page->has_offsets()) {
    take_texts(cells, copies, result);
  } else {
    take_fixed(cells, copies, result);
  }
}

void take_lists(const std::vector<FlatCell>& cells, FileCopies& copies, DecodedRows& result) {
  std::vector<Extent> lists = take_extents(cells, copies);
  std::vector<size_t> ends{0};
  for (const Extent& list : lists) {
    if (list.length > kMostItems - ends.back()) {
      corrupt("more than %zu items", kMostItems);
    }
    ends.push_back(ends.back() + list.length);
  }
  std::vector<FlatCell> items;
  items.reserve(ends.back());
  for (size_t k = 0; k < cells.size(); ++k) {
    const FlatLists& of = *cells[k].page->lists;
    size_t first = of.first_item + lists[k].begin;
    for (size_t item = first; item < first + lists[k].length; ++item) {
      size_t number = of.page_of(item);
      items.push_back({of.pages[number], item - of.starts[number], cells[k].file, cells[k].map});
    }
  }
  if (items.empty()) {
    result = no_values(*cells[0].page);
  } else {
    take_values(items, copies, result);
  }
  result.list_offsets = offsets_of(ends, cells[0].page->list_bits());
  result.list_validity = validity_of(cells.size(), [&](size_t k) { return lists[k].is_valid; });
}

}  // namespace

DecodedRows take_flat_rows(const std::vector<FlatRowsToTake>& parts, size_t num_rows, const GuardedCopies& copier) {
  if (num_rows == 0) {
    corrupt("a column without rows");
  }
  std::vector<FlatCell> cells = located(parts, num_rows);
  FileCopies copies(copier);
  DecodedRows result;
  if (cells[0].page->lists) {
    take_lists(cells, copies, result);
  } else {
    take_values(cells, copies, result);
  }
  return result;
}

}  // namespace lance
