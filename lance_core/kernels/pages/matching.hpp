// Which rows of mini-block pages meet a condition. A few chunks at a time are decoded and compared while they are in
// the cache of the processor; the decoded values are not kept.
#pragma once

#include "pages/miniblock.hpp"

namespace lance {

// Numbers from `lower` to `upper`, both included, in the bytes of their type; or all others if `is_outside`.
struct Interval {
  unsigned bits;  // of a number: 8, 16, 32 or 64
  bool is_float;
  uint64_t lower;
  uint64_t upper;  // of integers, signed or not, not below `lower`
  bool has_above;  // of floats: whether all above `upper` are in the interval, too, and NaN
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

// Compares rows [start, end) of flat numbers without a dictionary. Null is in no interval.
// Throws CorruptData, also if the file cannot be read.
MatchedRows match_interval(const MiniBlocks& page, PieceReader& file, size_t start, size_t end,
                           const Interval& interval);

// The same for pages with a dictionary: looks up the index of each row.
MatchedRows match_items(const MiniBlocks& page, PieceReader& file, size_t start, size_t end,
                        const MatchingItems& items);

}  // namespace lance
