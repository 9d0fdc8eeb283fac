// Reads and decodes rows of pages of 2.0 files in one call: values as they are in memory, strings, indices of strings,
// and lists of these (docs/format.md, "2.0"). The decoders in Python need several calls.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "files/pieces.hpp"
#include "pages/miniblock.hpp"

namespace lance {

// A byte range of a file.
struct FilePart {
  size_t offset;
  size_t size;
};

// Strings: the page has the end of each, 64 bits, to which `null_adjustment` is added if the string is null.
struct FlatText {
  FilePart data;
  uint64_t null_adjustment;
  unsigned offset_bits;  // of the decoded offsets
};

struct FlatPage;

// Lists: the page has the end of each among its items, 64 bits, to which `null_adjustment` is added if the list is
// null. The items are in the pages of another column, which begin at the items `starts` of that column.
struct FlatLists {
  std::vector<const FlatPage*> pages;
  std::vector<size_t> starts;  // one more than pages
  size_t first_item;           // in the column of the items
  size_t num_items;
  uint64_t null_adjustment;
  unsigned offset_bits;  // of the decoded offsets

  // Returns the number of the page that has an item of the column.
  size_t page_of(size_t item) const {
    return static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), item) - starts.begin()) - 1;
  }
};

struct FlatPage {
  size_t num_rows;
  unsigned bits;  // of a value, of an end of a string or of a list, or of an index
  FilePart values;
  std::optional<FilePart> validity;  // a bitmap of the rows
  std::optional<FlatText> text;
  std::optional<Items> items;  // strings; index 0 is null, and item 0 is empty
  std::optional<FlatLists> lists;

  // Returns the page itself, or the first page of the items of its lists.
  const FlatPage& values_page() const { return lists ? *lists->pages[0] : *this; }

  // Returns the bits of a fixed-width value, or of an offset.
  unsigned value_bits() const {
    const FlatPage& page = values_page();
    return page.text ? page.text->offset_bits : page.items ? page.items->offset_bits : page.bits;
  }

  unsigned list_bits() const { return lists ? lists->offset_bits : 0; }

  bool has_offsets() const { return values_page().text || values_page().items; }
};

// Throws CorruptData if the page has fewer bytes than its rows need.
void check_page(const FlatPage& page);

// Returns no values, of the kind of the values of a page or of the items of its lists.
DecodedRows no_values(const FlatPage& page);

// Decodes rows [start, end) of a page that `check_page` accepts. Throws CorruptData, also if the file cannot be read.
DecodedRows decode_rows(const FlatPage& page, PieceReader& file, size_t start, size_t end, Scratch& scratch);

}  // namespace lance
