// Byte stream split: byte 0 of all values of a chunk, then byte 1 of all values, and so on.
#pragma once

#include "base/common.hpp"
#include "base/pool.hpp"

namespace lance {

Block join_byte_streams(const Stream& stream, const Counts& counts, size_t width);

}  // namespace lance
