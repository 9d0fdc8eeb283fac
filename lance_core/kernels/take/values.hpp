// Values of wanted rows, from their chunks.
#pragma once

#include "take/chunk_cells.hpp"

namespace lance {

// Takes the values of all cells. Throws CorruptData if their pages do not have the type of `page`, and OffsetOverflow.
void take_values(const ChunkCells& column, const MiniBlocks& page, DecodedRows& result);

}  // namespace lance
