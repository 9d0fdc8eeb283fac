// Nulls and lists of wanted rows, from the levels of their chunks (docs/format.md, "Levels").
#pragma once

#include "take/chunk_cells.hpp"

namespace lance {

// Returns the validity of the values; none if all are valid.
std::optional<Block> take_validity(const ChunkCells& column);

// Decodes the levels of all lists: their validity and offsets, and the validity of their items. Afterwards the cells
// are the items of the lists, not the chunks.
void take_lists(ChunkCells& column, unsigned offset_bits, DecodedRows& result);

}  // namespace lance
