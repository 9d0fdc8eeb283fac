// Conversion of binary JSON, as JSON columns store it, to text.
#pragma once

#include <string>

#include "base/common.hpp"
#include "base/variable.hpp"
#include "json/values.hpp"

namespace lance {

// Returns the text of each value of a large-binary array, as UTF-8 with 32-bit offsets. `offsets` has num_values + 1
// numbers of 64 bits. `validity` has a bit per value, the first at `first_bit`, or is empty if no value is null. Bytes
// of strings are copied unchanged and may be invalid UTF-8.
VariableValues json_text(Bytes offsets, Bytes data, Bytes validity, size_t first_bit, size_t num_values);

namespace json {

// Appends a value as JSON text.
void append_text(std::string& out, const Value& value);

// Appends a number as JSON text. Floats have the fewest digits that read back as the same number, and a point or an
// exponent to tell them from integers. Numbers that are not finite become null.
void append_number(std::string& out, const Number& number);

}  // namespace json

}  // namespace lance
