// Texts that are joined row by row.
#pragma once

#include <vector>

#include "base/common.hpp"
#include "base/variable.hpp"

namespace lance {

// The texts of one operand; or without offsets, the same text in each row.
struct JoinedTexts {
  Bytes offsets;
  Bytes data;
};

// Returns for each row the texts of all operands one after the other.
// Throws CorruptData if offsets decrease or leave their data, and OffsetOverflow if the result has too many bytes.
VariableValues join_texts(const std::vector<JoinedTexts>& operands, size_t num_values, unsigned offset_bits);

}  // namespace lance
