// Writes to a file: computes the checksum of the written bytes, and lets the disk begin before the sync.
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

// Lets the disk begin to write bytes of a file that the page cache holds, without waiting for it. This makes nothing
// durable: only a later fsync does, which then waits for fewer bytes and still reports all errors. Returns errno, and 0
// if the file or the system knows no such start.
int start_write_back(int descriptor, int64_t offset, int64_t length);

}  // namespace lance
