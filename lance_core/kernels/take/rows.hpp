// Takes single rows of pages, of many columns and files, in one call (docs/format.md, "Mini-block pages" and "2.0"). A
// value is a few bytes of a chunk of some KiB. In a mapped file only these bytes are accessed, for all values of a
// column together, so that the processor waits for many addresses at once. Of a list, all levels of its chunks are
// decoded, and then its items are taken like the values of a flat column. Covers flat columns and lists of flat values,
// in the encodings of most pages. The decoders in Python handle all other columns.
#pragma once

#include "pages/flat_page.hpp"
#include "pages/miniblock.hpp"

namespace lance {

// The pages of a column of a file: either mini-blocks or pages of a 2.0 file. A page that is not known is null in both
// lists, and its rows cannot be taken.
struct ColumnPages {
  std::vector<const MiniBlocks*> pages;
  std::vector<const FlatPage*> flat_pages;
  std::vector<int64_t> starts;  // the first row of each page, and the number of rows
  PieceReader* file;

  size_t num_pages() const { return pages.size(); }

  bool is_known(size_t number) const { return pages[number] != nullptr || flat_pages[number] != nullptr; }

  bool is_flat() const;

  // Returns the number of the page that has a row; the number of pages if none has it.
  size_t page_of(int64_t row) const;

  // Returns the numbers of the unknown pages that have some of the rows, ascending.
  std::vector<size_t> unknown(Bytes rows) const;
};

// Rows of a file, in any order, and their positions in the result. Without `places` they are the whole result.
struct RowsToTake {
  std::vector<const ColumnPages*> columns;
  Bytes rows;    // int64
  Bytes places;  // int64
};

// Returns the columns of `num_rows` rows, which come from several files. A column that cannot be taken, for any reason,
// is none.
std::vector<std::optional<DecodedRows>> take_rows(const std::vector<RowsToTake>& parts, size_t num_columns,
                                                  size_t num_rows);

}  // namespace lance
