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

// Returns of each list the place (int64) of the item `index`, counted from 1 on, or from -1 backwards, and a bit that
// says whether the list has this item; without it the place is 0. `indices` are int64: one of each list, or one of all.
// Throws CorruptData if the offsets decrease, or if there are other numbers of indices.
std::pair<Block, Block> list_places(Bytes offsets, size_t num_lists, unsigned offset_bits, Bytes indices);

}  // namespace lance
