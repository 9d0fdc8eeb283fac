// CRC-32C (Castagnoli), computed with the fastest instructions that the processor has.
#pragma once

#include <span>

#include "base/common.hpp"

namespace lance {

// Returns the CRC-32C of bytes that follow other bytes with the CRC `initial`; 0 for the first bytes.
uint32_t crc32c(Bytes bytes, uint32_t initial);

// One implementation.
struct CrcWay {
  const char* name;
  size_t least;                                // from this many bytes on, no later implementation is faster
  uint32_t (*sum)(Bytes bytes, uint32_t crc);  // accepts any length; CRCs here are inverted
};

// The implementations that this processor supports, fastest first. The last one runs everywhere.
std::span<const CrcWay> crc_ways();

}  // namespace lance
