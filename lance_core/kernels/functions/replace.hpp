// Texts with another text in place of a part.
#pragma once

#include <string>

#include "base/common.hpp"
#include "base/variable.hpp"

namespace lance {

// Returns the texts with `by` in place of each `part`. Parts are looked for from the start of a text, and do not
// overlap. The caller has checked that the part is not empty.
// Throws CorruptData if the offsets decrease or leave the data, and OffsetOverflow if the result has too many bytes.
VariableValues replace_text(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits, const std::string& part,
                            const std::string& by);

}  // namespace lance
