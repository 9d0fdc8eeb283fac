// Repetition and definition levels: decoding them, cutting out rows, and turning them back into Arrow structure
// (docs/format.md, "Levels").
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

enum class LevelCoding { flat, bitpacked_inline, bitpacked, runs };

struct LevelEncoding {
  LevelCoding coding;
  unsigned bits;  // for `bitpacked`
};

// All levels of a row of chunks as u16.
Block decode_levels(const Stream& stream, const Counts& counts, LevelEncoding encoding);

struct Bitmap {
  Block bits;
  size_t length = 0;
  size_t num_nulls = 0;
};

// Validity of a nullable leaf without lists, straight from the encoded levels: valid where level <= limit. No level may
// be above `highest`.
Bitmap decode_validity(const Stream& stream, const Counts& counts, LevelEncoding encoding, uint16_t limit,
                       uint16_t highest);

struct RowRange {
  size_t entry_begin = 0, entry_end = 0;  // level entries
  size_t value_begin = 0, value_end = 0;  // visible entries
  size_t num_values = 0;                  // visible entries in all
};

// The entries of `num_rows` rows after skipping the tail of a row that began earlier and `skip_rows` whole rows.
// An entry starts a row where rep == max_rep; it has a value where def <= max_visible. `def` may be empty: all zero.
RowRange find_rows(Bytes rep, Bytes def, uint16_t max_rep, uint16_t max_visible, size_t skip_rows, size_t num_rows);

// An item layer. `depth_of[d]` says at which list depth level d lives; entries deeper than `depth` have no slot here.
Bitmap item_validity(Bytes def, Bytes depth_of, size_t depth, uint16_t limit);

struct ListLayer {
  Block offsets;  // length + 1 of them
  Block validity;
  size_t length = 0;
  size_t num_nulls = 0;
  size_t num_children = 0;
  Block rep;  // levels as the next layer outwards sees them, if asked for
  Block def;
};

struct ListLevels {
  int null;     // level of a null list, -1 if there is none
  int empty;    // level of an empty list, -1 if there is none
  int upper;    // highest level of this layer and those inside
  int shown;    // highest level of a null struct that wraps this list directly; above it the list does not exist
  int max_rep;  // number of list layers from this one outwards
};

ListLayer list_layer(Bytes rep, Bytes def, ListLevels levels, unsigned offset_bits, bool with_levels);

}  // namespace lance
