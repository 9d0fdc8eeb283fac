// CRC-32C (Castagnoli), by the fastest instructions that the processor has for it.
#pragma once

#include <span>

#include "common.hpp"

namespace lance {

// CRC-32C of bytes that follow others whose CRC is `initial`; 0 for the first ones.
uint32_t crc32c(Bytes bytes, uint32_t initial);

// A way to the same number.
struct CrcWay {
  const char* name;
  size_t least;                                // from so many bytes on no way behind it is faster
  uint32_t (*sum)(Bytes bytes, uint32_t crc);  // of any length; CRCs here are inverted
};

// The ways that this processor has, the fastest first. The last one needs nothing.
std::span<const CrcWay> crc_ways();

}  // namespace lance
