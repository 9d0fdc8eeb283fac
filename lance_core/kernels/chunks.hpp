// The mini-block layout: headers of a row of chunks (docs/format.md, mini-block pages).
#pragma once

#include "common.hpp"

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

}  // namespace lance
