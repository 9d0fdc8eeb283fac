// Edit distance of texts.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Returns for each pair of texts in UTF-8 how many characters must be inserted, deleted or replaced to make one of the
// other, as int32. Offsets are num_values + 1 numbers of 64 bits. Two long texts throw NoResult: the work is the
// product of their lengths.
Block edit_distances(Bytes left_offsets, Bytes left, Bytes right_offsets, Bytes right, size_t num_values);

}  // namespace lance
