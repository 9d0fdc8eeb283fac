// Takes single rows of pages of 2.0 files (docs/format.md, "2.0"). Only the bytes of these rows are read: values and
// their validity together, and then the bytes of strings, or the items of lists.
#pragma once

#include "take/rows.hpp"

namespace lance {

// Wanted rows of one column of a file; `map` is null if the file is not mapped.
struct FlatRowsToTake {
  const ColumnPages* column;
  Bytes rows;    // int64
  Bytes places;  // int64, positions in the result; without them the rows are the whole result
  const FileMap* map;
};

// Returns `num_rows` rows. Throws CorruptData if one of them cannot be taken, and OffsetOverflow.
DecodedRows take_flat_rows(const std::vector<FlatRowsToTake>& parts, size_t num_rows, const GuardedCopies& copier);

}  // namespace lance
