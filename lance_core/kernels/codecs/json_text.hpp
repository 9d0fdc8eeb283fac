// Binary JSON, as JSON columns store it, turned into the text that users see.
#pragma once

#include "base/common.hpp"
#include "base/variable.hpp"

namespace lance {

// The text of each value of a large-binary array, as UTF-8 with 32-bit offsets. `offsets` holds num_values + 1 64-bit
// numbers; `validity` has a bit per value, the first at `first_bit`, or is empty when there are no nulls. Bytes of
// strings are copied unchanged and may be invalid UTF-8.
VariableValues json_text(Bytes offsets, Bytes data, Bytes validity, size_t first_bit, size_t num_values);

}  // namespace lance
