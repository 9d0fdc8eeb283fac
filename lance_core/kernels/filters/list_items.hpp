// Items of lists, found by the offsets of the lists. The first list may begin behind item 0 of its column; items are
// counted from the first one of the first list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

// Returns a bit per list, as Arrow has them: whether it has an item whose bit is set in `found`.
// Throws CorruptData if the offsets decrease, or if there are not so many bits.
Block lists_with(Bytes offsets, size_t num_lists, unsigned offset_bits, Bytes found);

// Returns for each list the place of one item as int64, and a bit: whether the list has the item. If it does not, the
// place is 0. `indices` (int64) name the item, from 1 on, or from -1 backwards: one index per list, or one for all.
// Throws CorruptData if the offsets decrease, or if the number of indices is neither.
std::pair<Block, Block> list_places(Bytes offsets, size_t num_lists, unsigned offset_bits, Bytes indices);

}  // namespace lance
