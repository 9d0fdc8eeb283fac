// JSON text turned into the binary JSON that JSON columns store.
#pragma once

#include "base/common.hpp"
#include "base/variable.hpp"

namespace lance {

// The binary form of each value of a large-utf8 array, with 64-bit offsets. `offsets` holds num_values + 1 64-bit
// numbers; `validity` has a bit per value, the first at `first_bit`, or is empty when there are no nulls. Text that is
// no JSON is refused with the number of its value and the position in it. The dialect is that of the reference, see
// docs/format.md, "Logical types". The caller makes sure that the text is UTF-8.
VariableValues json_binary(Bytes offsets, Bytes data, Bytes validity, size_t first_bit, size_t num_values);

}  // namespace lance
