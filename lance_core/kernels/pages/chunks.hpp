// The mini-block layout: headers of consecutive chunks (docs/format.md, "Mini-block pages").
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

struct ChunkShape {
  bool has_rep;
  bool has_def;
  bool large;  // value buffer sizes are u32 (2.2) instead of u16 (2.1)
  size_t num_buffers;
};

struct Chunks {
  Counts num_levels;
  Stream rep;
  Stream def;
  std::vector<Stream> buffers;
};

// Parses the headers of chunks. `offsets` counts from the start of `data` and has one entry more than there are chunks.
Chunks parse_chunks(Bytes data, const std::vector<int64_t>& offsets, const Counts& counts, const ChunkShape& shape);

// Positions and first values of chunks, from the words of a page. Both lists end with the total.
struct ChunkPlaces {
  Block position;     // int64, bytes
  Block first_value;  // int64
};

// Parses the words of `num_values` values in chunks of at most `num_bytes` together. Words are u32 (`large`, 2.2) or
// u16 (2.1).
ChunkPlaces locate_chunks(Bytes words, bool large, int64_t num_values, int64_t num_bytes);

}  // namespace lance
