// JSON text turned into the binary JSON that JSON columns store.
#pragma once

#include "common.hpp"
#include "variable.hpp"

namespace lance {

// The binary form of each value of a large-utf8 array, with 64-bit offsets. `offsets` holds num_values + 1 64-bit
// numbers; `validity` has a bit per value, the first at `first_bit`, or is empty when there are no nulls. Text that is
// no JSON is refused with the number of its value and the place in it. The dialect is the one the reference takes, see
// docs/format.md, "Logical types". Text is taken for UTF-8: whoever does not know has to check it.
VariableValues json_binary(Bytes offsets, Bytes data, Bytes validity, size_t first_bit, size_t num_values);

}  // namespace lance
