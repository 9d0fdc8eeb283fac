// End offsets of strings and lists, in which an added constant marks a null (docs/format.md, "2.0").
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

struct NullEnds {
  Block offsets;   // n + 1 Arrow offsets that start at 0
  Block validity;  // one bit per value; empty if no value is null
  size_t num_nulls = 0;
  uint64_t begin = 0;  // the values cover the bytes or items [begin, end)
  uint64_t end = 0;
};

// Splits `ends`, n numbers of 64 bits, into offsets and validity. If `has_previous`, one more number before them is the
// start of the first value. A number of at least `adjustment` is a null, which ends at the number minus `adjustment`.
// Ends must not decrease or exceed `limit`.
NullEnds split_null_ends(Bytes ends, size_t n, bool has_previous, uint64_t adjustment, uint64_t limit,
                         unsigned offset_bits);

struct JoinedEnds {
  Block offsets;   // Arrow offsets of all values, and the end
  Block validity;  // one bit per value; empty if no value is null
  size_t num_nulls = 0;
  std::vector<int64_t> sizes;  // bytes or items of each page
};

// Splits the ends of several pages, which follow each other in `ends`, as `split_null_ends` does those of one. The ends
// of a page count from its own beginning, and become offsets that count from the beginning of the first page.
JoinedEnds join_null_ends(Bytes ends, const std::vector<int64_t>& num_values, const std::vector<int64_t>& adjustments,
                          const std::vector<int64_t>& limits, unsigned offset_bits);

}  // namespace lance
