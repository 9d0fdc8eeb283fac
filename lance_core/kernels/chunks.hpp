// The mini-block layout: headers of a row of chunks (docs/format.md, "Mini-block pages").
#pragma once

#include "common.hpp"
#include "pool.hpp"

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

// `offsets` has one entry more than there are chunks and counts from the start of `data`.
Chunks parse_chunks(Bytes data, const std::vector<int64_t>& offsets, const Counts& counts, const ChunkShape& shape);

// Where chunks lie and what they hold, by the words of a page; both lists end with what there is in all.
struct ChunkPlaces {
  Block position;     // int64, bytes
  Block first_value;  // int64
};

// `num_values` in chunks of `num_bytes` at the most. Words are u32 (`large`, 2.2) or u16 (2.1).
ChunkPlaces locate_chunks(Bytes words, bool large, int64_t num_values, int64_t num_bytes);

}  // namespace lance
