// LZ4 blocks, writing side (docs/format.md, "General"): the chunks of a page in one call.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

struct PackedFrames {
  Block data;
  std::vector<int64_t> lengths;  // per chunk
};

// Compresses each chunk to a frame: its size (u32), then one LZ4 block.
PackedFrames compress_lz4(const Stream& chunks);

}  // namespace lance
