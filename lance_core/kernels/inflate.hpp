// General compression as Lance frames it (docs/format.md, "General"): a size, then what the compressor made. No bytes
// stand for no bytes.
#pragma once

#include "variable.hpp"

namespace lance {

enum class Compressor { none, lz4, zstd };

// Chunks as they were before compression. They lie in `out`, which grows as needed.
Stream inflate(const Stream& chunks, Compressor compressor, Block& out);

// The same for values under Arrow offsets, each compressed by itself.
VariableValues inflate_values(Bytes offsets, Bytes data, size_t num_values, unsigned offset_bits,
                              Compressor compressor);

}  // namespace lance
