#include "compression/xxhash.hpp"

#include <bit>

namespace lance {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F, kPrime3 = 0x165667B19E3779F9,
                   kPrime4 = 0x85EBCA77C2B2AE63, kPrime5 = 0x27D4EB2F165667C5;

inline uint64_t mix(uint64_t sum, uint64_t word) { return std::rotl(sum + word * kPrime2, 31) * kPrime1; }

}  // namespace

uint64_t xxhash64(Bytes bytes) {
  const uint8_t *at = bytes.data, *end = at + bytes.size;
  uint64_t hash = kPrime5;
  if (bytes.size >= 32) {
    uint64_t lanes[4] = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
    for (; end - at >= 32; at += 32) {
      for (size_t i = 0; i < 4; ++i) {
        lanes[i] = mix(lanes[i], load<uint64_t>(at + 8 * i));
      }
    }
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (uint64_t lane : lanes) {
      hash = (hash ^ mix(0, lane)) * kPrime1 + kPrime4;
    }
  }
  hash += bytes.size;
  for (; end - at >= 8; at += 8) {
    hash = std::rotl(hash ^ mix(0, load<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  }
  if (end - at >= 4) {
    hash = std::rotl(hash ^ load<uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at != end; ++at) {
    hash = std::rotl(hash ^ *at * kPrime5, 11) * kPrime1;
  }
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace lance
