// Many short byte ranges of a local file, read with few system calls.
#pragma once

#include "common.hpp"
#include "pool.hpp"

namespace lance {

struct Pieces {
  Block data;        // of all ranges, one after the other
  int error = 0;     // errno of a read that failed
  int64_t end = -1;  // where the file ended although a range goes on; -1 when all was read
};

// `offsets` and `lengths` are int64; every range must lie in `file_bytes`. Ranges at most `max_gap` bytes apart, in the order given, share a system call;
// the bytes between them are dropped. `descriptor` stays open meanwhile.
Pieces read_pieces(int descriptor, size_t file_bytes, Bytes offsets, Bytes lengths, size_t max_gap);

}  // namespace lance
