// Lengths of texts.
#pragma once

#include <cstddef>

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Returns how many characters each text has, as numbers of the width of its offsets. Texts are UTF-8.
// Throws CorruptData if the offsets decrease or leave the data.
Block count_characters(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits);

}  // namespace lance
