// Repetition and definition levels: decoding, finding rows, and unravelling to Arrow structure (docs/format.md,
// "Levels").
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

enum class LevelCoding { flat, bitpacked_inline, bitpacked, runs };

struct LevelEncoding {
  LevelCoding coding;
  unsigned bits;  // for `bitpacked`
};

// Decodes all levels of consecutive chunks to u16.
Block decode_levels(const Stream& stream, const Counts& counts, LevelEncoding encoding);

struct Bitmap {
  Block bits;
  size_t length = 0;
  size_t num_nulls = 0;
};

// Decodes the validity of a nullable leaf without lists directly from the encoded levels: valid if level <= limit. A
// level above `highest` is refused.
Bitmap decode_validity(const Stream& stream, const Counts& counts, LevelEncoding encoding, uint16_t limit,
                       uint16_t highest);

struct RowRange {
  size_t entry_begin = 0, entry_end = 0;  // level entries
  size_t value_begin = 0, value_end = 0;  // visible entries
  size_t num_values = 0;                  // number of all visible entries
};

// Finds the entries of `num_rows` rows, after the rest of a row that began earlier and `skip_rows` whole rows. An entry
// begins a row if rep == max_rep. It has a value if def <= max_visible. An empty `def` means that all levels are zero.
RowRange find_rows(Bytes rep, Bytes def, uint16_t max_rep, uint16_t max_visible, size_t skip_rows, size_t num_rows);

// Finds the entries of `num_rows` rows behind those of `before`, after `skip_rows` whole rows, and reads no levels
// behind them. `num_values` is that of `before`.
RowRange find_rows_behind(Bytes rep, Bytes def, uint16_t max_rep, uint16_t max_visible, const RowRange& before,
                          size_t skip_rows, size_t num_rows);

// Unravels an item layer. `depth_of[d]` is the list depth of level d. Entries deeper than `depth` have no slot here.
Bitmap item_validity(Bytes def, Bytes depth_of, size_t depth, uint16_t limit);

struct ListLayer {
  Block offsets;  // length + 1 offsets
  Block validity;
  size_t length = 0;
  size_t num_nulls = 0;
  size_t num_children = 0;
  Block rep;  // levels for the next layer outwards, if requested
  Block def;
};

struct ListLevels {
  int null;   // level of a null list; -1 if no list is null
  int empty;  // level of an empty list; -1 if no list is empty
  int upper;  // highest level of this layer and the layers inside it
  int shown;  // highest level of a null struct directly around the list; an entry with a higher level has no list here
  int max_rep;  // number of list layers from this one outwards
};

ListLayer list_layer(Bytes rep, Bytes def, ListLevels levels, unsigned offset_bits, bool with_levels);

}  // namespace lance
