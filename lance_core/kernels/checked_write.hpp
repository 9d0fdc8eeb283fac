// Writing to a file and summing up what was written, in one pass over memory.
#pragma once

#include "common.hpp"

namespace lance {

struct CheckedWrite {
  size_t written;  // less than there was when `error` is not 0, or when the file took no more
  uint32_t crc;    // of what came before and of what was written
  int error;       // errno
};

// Writes bytes where a file descriptor stands; `crc` is the CRC-32C of what came before them.
CheckedWrite write_checked(int descriptor, Bytes bytes, uint32_t crc);

}  // namespace lance
