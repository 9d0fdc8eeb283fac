// LZ4 blocks, reading side (docs/format.md, "General"). The writing side is compress_lz4.hpp.
#pragma once

#include "base/common.hpp"

namespace lance {

// Decompresses a block, which must have exactly `size` bytes. `to` has room for `size` bytes and kCopySlack more.
void inflate_lz4(Bytes block, uint8_t* to, size_t size);

}  // namespace lance
