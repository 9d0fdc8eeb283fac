// Totals of the fields of serialized protobuf messages.
#pragma once

#include <vector>

#include "base/common.hpp"

namespace lance {

struct FieldTotals {
  uint64_t count = 0;
  uint64_t sum = 0;
};

// Counts the fields at a path of field numbers and adds up their values, for varint fields. The path leads from
// message to message and is not empty. A sum of more than 64 bits throws CorruptData.
FieldTotals field_totals(Bytes message, const std::vector<uint64_t>& path);

}  // namespace lance
