// Conversion of JSON text to the binary JSON of JSON columns.
#pragma once

#include "base/common.hpp"
#include "base/variable.hpp"

namespace lance {

// Returns the binary form of each value of a large-utf8 array, with 64-bit offsets. `offsets` has num_values + 1
// numbers of 64 bits. `validity` has a bit per value, the first at `first_bit`, or is empty if no value is null. A text
// that is not JSON is refused; the message has the number of the value and the position in it. The accepted dialect is
// that of the reference, see docs/format.md, "Logical types". The text must be valid UTF-8.
VariableValues json_binary(Bytes offsets, Bytes data, Bytes validity, size_t first_bit, size_t num_values);

}  // namespace lance
