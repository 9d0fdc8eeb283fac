// Single values of mini-block pages: finds the chunks that contain them, and decodes the values from these chunks.
//
// A pick is the number of a value among all values of the chosen chunks. Picks ascend.
#pragma once

#include "base/variable.hpp"
#include "pages/levels.hpp"

namespace lance {

// The chunks of a page that contain some values.
struct ChunkChoice {
  Block offsets;  // int64: start of each chunk in the file
  Block lengths;  // int64: size of each chunk in bytes
  Block starts;   // int64: start of each chunk in the bytes of all chunks, and the end
  Counts counts;
  Block picks;  // int64, one per value
};

// Chooses the chunks of values. `positions` (bytes after `base`) and `first_values` have one entry more than there are
// chunks. `values` are ascending int64 numbers.
ChunkChoice choose_chunks(Bytes positions, Bytes first_values, Bytes values, int64_t base);

// The chunks of rows of a page with lists, and three int64 numbers per row: the first and the last chosen chunk with
// entries of the row, and the number of rows that begin before it in the first of them.
struct RowChoice {
  Block offsets;
  Block lengths;
  Block starts;
  Counts counts;
  Counts begun_rows;  // number of rows that begin in each chunk
  Block places;
};

// Chooses the chunks of rows. `first_rows` has the first row that begins in each chunk, `ended_rows` the number of rows
// that end before each chunk.
RowChoice choose_row_chunks(Bytes positions, Bytes first_values, Bytes first_rows, Bytes ended_rows, Bytes rows,
                            int64_t base);

// The entries of chosen rows, and the picks of their values.
struct PickedRows {
  Block rep;
  Block def;  // empty if `def` is empty
  Block picks;
  size_t num_values = 0;
};

PickedRows pick_rows(Bytes rep, Bytes def, const Counts& num_levels, const Counts& counts, const Counts& begun_rows,
                     Bytes places, uint16_t max_rep, uint16_t max_visible);

Block pick_fixed(const Stream& stream, const Counts& counts, Bytes picks, size_t width);
Block pick_bits(const Stream& stream, const Counts& counts, Bytes picks);
Block pick_inline(const Stream& stream, const Counts& counts, Bytes picks, unsigned word_bits);
VariableValues pick_variable(const Stream& stream, const Counts& counts, Bytes picks, unsigned offset_bits);
// Returns levels as u16. Here a pick is the number of an entry.
Block pick_levels(const Stream& stream, const Counts& counts, Bytes picks, LevelEncoding encoding);

// Calls `each(k, chunk, place)` for each pick: the k-th pick is the `place`-th value of `chunk`.
template <class Each>
void walk_picks(Bytes picks, const Counts& counts, Each each) {
  if (picks.size % 8 != 0) {
    corrupt("%zu bytes are no array of 64-bit numbers", picks.size);
  }
  size_t chunk = 0;
  int64_t begin = 0, previous = 0;
  for (size_t k = 0; k < picks.size / 8; ++k) {
    auto pick = load<int64_t>(picks.data + 8 * k);
    if (pick < previous || pick >= counts.total) {
      corrupt("value %lld of %lld", static_cast<long long>(pick), static_cast<long long>(counts.total));
    }
    previous = pick;
    while (pick - begin >= counts.values[chunk]) {
      begin += counts.values[chunk++];
    }
    each(k, chunk, static_cast<size_t>(pick - begin));
  }
}

}  // namespace lance
