// Functions of columns of binary JSON: values at paths, members, and conversions to other types.
//
// A column is a large-binary array: `offsets` has num_values + 1 numbers of 64 bits, and `validity` has a bit per
// value, the first at `first_bit`, or is empty if no value is null. The result of null is null.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/common.hpp"
#include "base/pool.hpp"
#include "base/variable.hpp"

namespace lance {

struct JsonColumn {
  Bytes offsets;
  Bytes data;
  Bytes validity;
  size_t first_bit = 0;
  size_t num_values = 0;
};

// Values of a fixed width, or bits, and the validity of each.
struct NullableValues {
  Block values;
  Block validity;
};

struct NullableVariable {
  VariableValues values;
  Block validity;
};

// All functions of paths throw json::InvalidPath if the text is no path.

// Returns the value at a path of each document as binary JSON with 64-bit offsets: an array if there are several, null
// if there is none.
NullableVariable json_values_at(const JsonColumn& column, std::string_view path);

// Returns whether there is a value at a path, as bits.
NullableValues json_exists(const JsonColumn& column, std::string_view path);

// Returns the number of items of the first value at a path, 0 if it is no array, null if there is none, as int64.
NullableValues json_array_length(const JsonColumn& column, std::string_view path);

// Returns whether an array at a path has an item whose JSON text is `text`, or is the string `text`, as bits.
NullableValues json_array_contains(const JsonColumn& column, std::string_view path, std::string_view text);

// Returns the member of each object with this name, or the item of each array with this index, as binary JSON with
// 64-bit offsets. It is null if there is none.
NullableVariable json_member(const JsonColumn& column, std::string_view name);

// Convert documents to other types. JSON null becomes null. A value that does not fit throws NoResult: an array,
// an object, a text that is no number ... Floats are rounded to integers.
NullableVariable json_strings(const JsonColumn& column);  // 32-bit offsets
NullableValues json_integers(const JsonColumn& column);
NullableValues json_floats(const JsonColumn& column);
NullableValues json_booleans(const JsonColumn& column);

// The values in documents that are no arrays and no objects, in order.
struct JsonLeaves {
  Block ends;             // int64, end of the leaves of each document
  Block labels;           // u32, number of the label of each leaf
  VariableValues names;   // labels: the path of a value, its type ("str", "number", "bool", "null"), a comma after each
  VariableValues values;  // the bytes of a string, or JSON text
};

// A path has the names of members with dots between, and nothing for arrays.
JsonLeaves json_leaves(const JsonColumn& column);

}  // namespace lance
