// Wanted rows of decoded pages. If many rows of a page are wanted, decoding all of it and dropping the others costs
// less than decoding single rows.
#pragma once

#include "pages/flat_page.hpp"
#include "pages/miniblock.hpp"

namespace lance {

// The rows to keep: ascending int64 row numbers. The decoded rows begin with row `first_row`.
struct KeptRows {
  Bytes rows;
  int64_t first_row;
};

// Returns these rows of `num_rows` decoded rows. `value_bits` are the bits of a value, or of an offset; `list_bits`
// those of an offset of the lists, 0 without lists. Throws CorruptData if the rows do not ascend, or are not among the
// decoded rows.
DecodedRows keep_rows(const DecodedRows& decoded, size_t num_rows, const KeptRows& kept, unsigned value_bits,
                      unsigned list_bits);

// The rows to keep: those whose bits are set. Bit `start` is that of the first decoded row.
struct KeptMask {
  Bytes bits;
  size_t start;
};

// Decodes rows [start, end) of values of fixed width, and keeps some of them. Blocks of rows are decoded and dropped
// while they are in the cache of the processor. Throws CorruptData, also for pages with other values, or if the file
// cannot be read.
DecodedRows decode_masked(const MiniBlocks& page, PieceReader& file, size_t start, size_t end, const KeptMask& mask);
DecodedRows decode_masked(const FlatPage& page, PieceReader& file, size_t start, size_t end, const KeptMask& mask);

}  // namespace lance
