// Remainders of integers by a constant.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Returns the remainders of integers of 8, 16, 32 or 64 bits, with the signs of the integers. The caller has checked
// the bits, and that the divisor, which is not 0, fits in the type of the integers.
Block remainders(Bytes numbers, unsigned bits, bool is_signed, uint64_t divisor);

}  // namespace lance
