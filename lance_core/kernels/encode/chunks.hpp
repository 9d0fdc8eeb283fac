// The mini-block layout, writing side: chunks assembled from encoded values and levels
// (docs/format.md, "Mini-block pages").
#pragma once

#include "encode/levels.hpp"

namespace lance {

// Thrown if a chunk exceeds the limits of the fields that describe it. The caller makes smaller pages or uses another
// layout.
class ChunkOverflow : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct LevelSource {
  Bytes levels;  // u16; empty without levels
  LevelEncoding encoding;
};

struct AssembledChunks {
  Block words;             // one u16 or u32 per chunk
  Block chunks;            // one after the other
  Block repetition_index;  // two u64 per chunk; empty without repetition levels
};

// Assembles chunks. `buffers` has one stream per value buffer. All counts except the last are powers of two. An entry
// has a value if its definition level is at most `max_visible`, and begins a row if its repetition level is `max_rep`.
// `large`: words and sizes of value buffers are u32 (2.2) instead of u16 (2.1).
AssembledChunks assemble_chunks(const std::vector<const Stream*>& buffers, const Counts& counts, LevelSource rep,
                                LevelSource def, uint16_t max_rep, uint16_t max_visible, bool large);

}  // namespace lance
