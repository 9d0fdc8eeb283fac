// Parts of texts between separators.
#pragma once

#include <cstdint>
#include <string>

#include "base/common.hpp"
#include "base/variable.hpp"

namespace lance {

// Returns of each text the part `index`, counted from 1 on, or from -1 backwards; nothing if it has fewer parts.
// Separators are looked for from the start of a text. The caller has checked that there is a separator and an index.
VariableValues split_part(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits,
                          const std::string& separator, int64_t index);

}  // namespace lance
