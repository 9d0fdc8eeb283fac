// Candidate ranges: the rows that statistics leave of fragments, from what they say of ranges of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/common.hpp"

namespace lance {

// Rows [start, end) of a fragment in which every condition may be true. `asked` are the conditions that are not sure to
// be true there, ascending.
struct CandidateRange {
  size_t fragment;
  int64_t start;
  int64_t end;
  std::vector<size_t> asked;
};

// Returns the longest candidate ranges with the same `asked`, in order. `kept` and `sure` have a byte for each
// condition and each range of rows, condition by condition: whether it may be true there, and whether it is sure to be.
// Ranges of rows begin and end at `edges` (int64), which count the rows of all fragments one after the other. `starts`
// are the first rows of the fragments, and the number of all rows; each of them is an edge. Throws CorruptData if the
// sizes do not fit together.
std::vector<CandidateRange> candidate_ranges(Bytes kept, Bytes sure, size_t num_conditions, Bytes edges,
                                             const std::vector<int64_t>& starts);

}  // namespace lance
