// Many short byte ranges of a local file, read with few system calls.
#pragma once

#include "common.hpp"
#include "pool.hpp"

namespace lance {

// Byte ranges of a file that belong together: int64 offsets and lengths.
struct PieceRanges {
  Bytes offsets;
  Bytes lengths;
};

struct Pieces {
  std::vector<Block> data;  // of the ranges of each part, one after the other
  int error = 0;            // errno of a read that failed
  int64_t end = -1;         // where the file ended although a range goes on; -1 when all was read
};

// Every range must lie in `file_bytes`. Ranges at most `max_gap` bytes apart, in the order given, share a system call;
// the bytes between them are dropped. `descriptor` stays open meanwhile.
Pieces read_pieces(int descriptor, size_t file_bytes, const std::vector<PieceRanges>& parts, size_t max_gap);

}  // namespace lance
