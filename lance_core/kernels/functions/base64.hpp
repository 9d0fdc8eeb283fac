// Base64 of bytes (RFC 4648, standard alphabet).
#pragma once

#include "base/common.hpp"
#include "base/variable.hpp"

namespace lance {

// Returns the text of each value, with 64-bit offsets. `offsets` has num_values + 1 numbers of 64 bits. With `padding`,
// the length of a text is a multiple of four.
VariableValues encode_base64(Bytes offsets, Bytes data, size_t num_values, bool padding);

// Returns the bytes of each text, with 64-bit offsets. Padding may be left out unless it is `required`. A text that is
// no base64 throws NoResult.
VariableValues decode_base64(Bytes offsets, Bytes data, size_t num_values, bool required);

}  // namespace lance
