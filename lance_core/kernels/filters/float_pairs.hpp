// Comparisons of floats with floats, row by row.
#pragma once

#include <cstddef>

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Returns a bit per row, as Arrow has them: whether the left float is less than the right one, or equals it. NaN equals
// NaN and is the greatest number. `is_negated` exchanges the results. The caller has checked that `bits` is 32 or 64.
// Throws CorruptData if the sides do not have the same number of floats.
Block compare_floats(Bytes left, Bytes right, unsigned bits, bool is_less, bool is_negated);

}  // namespace lance
