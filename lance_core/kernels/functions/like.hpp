// Texts that match a pattern with wildcards.
#pragma once

#include <string>
#include <vector>

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// A part of a pattern without gaps of any length: any `skipped` characters and then a literal, several times.
struct LikePiece {
  size_t skipped = 0;
  std::string literal;
};
using LikeSegment = std::vector<LikePiece>;

// Returns a bit per text, as Arrow has them: whether the segments follow one another in it, with any characters between
// them. Texts are UTF-8. The first segment begins the text if `at_start` is set, the last one ends it if `at_end` is.
// The caller has checked that there is a segment then, and that no segment is empty.
Block match_like(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits,
                 const std::vector<LikeSegment>& segments, bool at_start, bool at_end);

}  // namespace lance
