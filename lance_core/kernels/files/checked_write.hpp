// Writes to a file and computes the checksum of the written bytes.
#pragma once

#include "base/common.hpp"

namespace lance {

struct CheckedWrite {
  size_t written;  // less than requested if `error` is not 0, or if the file accepted no more
  uint32_t crc;    // of the earlier bytes and the written bytes
  int error;       // errno
};

// Writes bytes at the current position of a file descriptor. `crc` is the CRC-32C of the bytes before them.
CheckedWrite write_checked(int descriptor, Bytes bytes, uint32_t crc);

}  // namespace lance
