// General compression in Lance's frames (docs/format.md, "General"): a size, then the compressed data. An empty buffer
// decompresses to an empty buffer.
#pragma once

#include "base/variable.hpp"

namespace lance {

enum class Compressor { none, lz4, zstd };

// Returns decompressed chunks. They are in `out`, which grows as needed.
Stream inflate(const Stream& chunks, Compressor compressor, Block& out);

// Decompresses values with Arrow offsets, each of which is compressed by itself.
VariableValues inflate_values(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits,
                              Compressor compressor);

}  // namespace lance
