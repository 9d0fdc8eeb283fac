// Single rows of mini-block pages, of many columns and files, in one go. A value is a few bytes out of a chunk of some
// KiB: of a file that is mapped only these are touched, all values of a column side by side, so that the machine waits
// for many places of memory together. Covers flat columns in the encodings that fill most pages
// (docs/format.md, "Mini-block pages"); everything else goes the long way.
#pragma once

#include "miniblock.hpp"

namespace lance {

// The pages of a column of a file.
struct ColumnPages {
  std::vector<const MiniBlocks*> pages;
  std::vector<int64_t> starts;  // the first row of each, and how many there are
  PieceReader* file;
};

// Rows of a file, in any order, and their places in the result; without `places` they are all rows of the result.
struct RowsToTake {
  std::vector<const ColumnPages*> columns;
  Bytes rows;    // int64
  Bytes places;  // int64
};

struct TakenColumn {
  std::optional<Block> validity;  // none where all are valid
  Block values;                   // fixed-width, or offsets
  std::optional<Block> data;
};

// The columns of `num_rows` rows, to which each of the parts gives some; none for a column where that failed, whatever
// the reason.
std::vector<std::optional<TakenColumn>> take_rows(const std::vector<RowsToTake>& parts, size_t num_columns,
                                                  size_t num_rows);

}  // namespace lance
