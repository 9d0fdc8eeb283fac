// Which rows of pages meet a condition. A few chunks at a time are decoded and compared while they are in
// the cache of the processor; the decoded values are not kept.
#pragma once

#include <cstdint>
#include <vector>

#include "filters/number_set.hpp"
#include "pages/flat_page.hpp"
#include "pages/miniblock.hpp"

namespace lance {

// Numbers from `lower` to `upper`, both included, in the bytes of their type.
struct Interval {
  uint64_t lower;
  uint64_t upper;  // of integers, signed or not, not below `lower`
  bool has_above;  // of floats: whether all above `upper` are in the interval, too, and NaN
};

// Numbers that are in one of some intervals; or in none of them if `is_outside`.
struct Intervals {
  unsigned bits;  // of a number: 8, 16, 32 or 64
  bool is_float;
  std::vector<Interval> parts;
  bool is_outside;
};

// Integers with a remainder by a divisor, which has the sign of the integer; all others if `is_outside`. The divisor is
// not 0, and fits in the type of the integers.
struct Remainder {
  unsigned bits;  // of an integer: 8, 16, 32 or 64
  bool is_signed;
  uint64_t divisor;
  uint64_t rest;
  bool is_outside;
};

// The items of a dictionary that meet a condition: one byte per item, and whether null does.
struct MatchingItems {
  Bytes items;
  bool null;
};

struct MatchedRows {
  Block bits;  // a bitmap; the bits after the last row are zero
  size_t num_matching;
};

// Compares rows [start, end) of flat numbers without a dictionary. Null never matches.
// Throws CorruptData, also if the file cannot be read.
MatchedRows match_intervals(const MiniBlocks& page, PieceReader& file, size_t start, size_t end,
                            const Intervals& intervals);
MatchedRows match_intervals(const FlatPage& page, PieceReader& file, size_t start, size_t end,
                            const Intervals& intervals);

// Looks up the rows in a set: those match that are in it, or with `is_outside` the others. Null never matches.
// Throws what `match_intervals` throws.
MatchedRows match_listed(const MiniBlocks& page, PieceReader& file, size_t start, size_t end, const NumberSet& numbers,
                         bool is_outside);
MatchedRows match_listed(const FlatPage& page, PieceReader& file, size_t start, size_t end, const NumberSet& numbers,
                         bool is_outside);

// Divides the rows. Null never matches. Throws what `match_intervals` throws.
MatchedRows match_remainder(const MiniBlocks& page, PieceReader& file, size_t start, size_t end,
                            const Remainder& remainder);
MatchedRows match_remainder(const FlatPage& page, PieceReader& file, size_t start, size_t end,
                            const Remainder& remainder);

// Compares rows of pages with a dictionary: looks up the index of each row.
MatchedRows match_items(const MiniBlocks& page, PieceReader& file, size_t start, size_t end,
                        const MatchingItems& items);
MatchedRows match_items(const FlatPage& page, PieceReader& file, size_t start, size_t end, const MatchingItems& items);

}  // namespace lance
