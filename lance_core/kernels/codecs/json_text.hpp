// Conversion of binary JSON, as JSON columns store it, to text.
#pragma once

#include "base/common.hpp"
#include "base/variable.hpp"

namespace lance {

// Returns the text of each value of a large-binary array, as UTF-8 with 32-bit offsets. `offsets` has num_values + 1
// numbers of 64 bits. `validity` has a bit per value, the first at `first_bit`, or is empty if no value is null. Bytes
// of strings are copied unchanged and may be invalid UTF-8.
VariableValues json_text(Bytes offsets, Bytes data, Bytes validity, size_t first_bit, size_t num_values);

}  // namespace lance
