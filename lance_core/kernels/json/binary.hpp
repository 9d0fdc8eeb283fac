// Common parts of both directions of JSON: the constants of binary JSON (docs/format.md, "Logical types"), and the loop
// over the values of a column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "base/common.hpp"
#include "base/variable.hpp"

namespace lance::json {

// A container begins with a header: its kind in three bits, the number of its members in the others.
constexpr uint32_t kKindMask = 0xE0000000;
constexpr uint32_t kCountMask = 0x1FFFFFFF;
constexpr uint32_t kArray = 0x80000000;
constexpr uint32_t kObject = 0x40000000;
constexpr uint32_t kScalar = 0x20000000;

// Entries follow, one per member (in objects one per key, then one per value): type and length of the bytes of the
// member. The bytes follow all entries, in the same order. The highest bit has no meaning.
constexpr uint32_t kTypeMask = 0x70000000;
constexpr uint32_t kLengthMask = 0x0FFFFFFF;
constexpr uint32_t kNull = 0x00000000;
constexpr uint32_t kString = 0x10000000;
constexpr uint32_t kNumber = 0x20000000;
constexpr uint32_t kFalse = 0x30000000;
constexpr uint32_t kTrue = 0x40000000;
constexpr uint32_t kContainer = 0x50000000;

// The first byte of a number is its type; big-endian bytes follow.
constexpr uint8_t kZero = 0x00;
constexpr uint8_t kNaN = 0x10;
constexpr uint8_t kInfinity = 0x20;
constexpr uint8_t kMinusInfinity = 0x30;
constexpr uint8_t kSigned = 0x40;
constexpr uint8_t kUnsigned = 0x50;
constexpr uint8_t kFloat = 0x60;

constexpr size_t kEntryBytes = 4;

// A deeper value is refused, so that recursion (whose frames are small) cannot exhaust the stack.
constexpr int kMaxDepth = 2048;

inline bool is_valid(Bytes validity, size_t bit) {
  return validity.size == 0 || (validity.slice(bit / 8, 1).data[0] >> (bit % 8) & 1) != 0;
}

// Calls `append(value, number)` for each value of a column with 64-bit offsets, which adds the result to `out`. Nulls
// become empty results. `Offset` is the type of the offsets of the results.
template <class Offset, class Append>
VariableValues convert_values(Bytes offsets, Bytes data, Bytes validity, size_t first_bit, size_t num_values,
                              std::string& out, Append append) {
  if (num_values >= std::numeric_limits<size_t>::max() / 8 - 1) {
    corrupt("a JSON column of %zu values", num_values);
  }
  offsets.slice(0, (num_values + 1) * sizeof(uint64_t));
  VariableValues result;
  result.num_values = num_values;
  result.offsets = Block((num_values + 1) * sizeof(Offset));
  store<Offset>(result.offsets.data(), 0);
  for (size_t i = 0; i < num_values; ++i) {
    if (is_valid(validity, first_bit + i)) {
      auto start = load<uint64_t>(offsets.data + i * sizeof(uint64_t));
      auto end = load<uint64_t>(offsets.data + (i + 1) * sizeof(uint64_t));
      if (start > end) {
        corrupt("offsets of value %zu fall", i);
      }
      append(data.slice(start, end - start), i);
      if (out.size() > static_cast<uint64_t>(std::numeric_limits<Offset>::max())) {
        throw OffsetOverflow("JSON text of more than 2 GiB");
      }
    }
    store<Offset>(result.offsets.data() + (i + 1) * sizeof(Offset), static_cast<Offset>(out.size()));
  }
  result.data = Block(out.size());
  copy_bytes(result.data.data(), out.data(), out.size());
  return result;
}

}  // namespace lance::json
